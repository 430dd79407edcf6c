"""Which run of which server it is, which lock ids it uses, and shares that come and go [KEEP-3] [GRACE-3]."""

import asyncio
from pathlib import Path

import pytest

from dittofs.locks.keeping import NODE_IDS, SplitBrain
from dittofs.locks.limits import LockLimits
from dittofs.locks.outcomes import (
    Denied,
    Ended,
    Granted,
    InGrace,
)
from dittofs.model.ids import FileId, FileRef
from dittofs.stores.api import StoreError
from dittofs.stores.node import Node, begin_epoch, take_back_epoch
from dittofs.stores.transactions import LocalTransactions
from tests.locks.world import (
    ALL,
    EXPORT,
    EXPORT_ID,
    FILE,
    OTHER,
    OTHER_ID,
    FaultStore,
    kept,
    locked,
    owner,
    recorded,
    run,
    running,
    wanted,
)

# Nodes and epochs


def test_an_epoch_grows_by_one_at_each_start(tmp_path: Path) -> None:
    """[KEEP-3]"""
    first = begin_epoch(tmp_path)
    assert first.epoch == 1
    assert begin_epoch(tmp_path) == Node(first.id, 2)
    assert begin_epoch(tmp_path) == Node(first.id, 3)
    take_back_epoch(tmp_path, Node(first.id, 3))
    assert begin_epoch(tmp_path) == Node(first.id, 3)


def test_two_data_directories_are_two_nodes(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert begin_epoch(tmp_path / "a").id != begin_epoch(tmp_path / "b").id


@pytest.mark.parametrize("text", ["", "dittofs node", "dittofs node 0f epoch x\n", "elsewhere node 0f epoch 1\n"])
def test_a_node_file_that_is_not_one_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "node").write_text(text)
    with pytest.raises(StoreError, match="node HEX epoch N"):
        begin_epoch(tmp_path)


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_server_stops_that_finds_a_higher_epoch_of_its_own(epoch: int) -> None:
    """[KEEP-3]: a copy of its data directory was served meanwhile; the same epoch, still running, is one as well."""

    async def work() -> None:
        store = FaultStore()
        async with running(store, epoch=2):
            pass
        with pytest.raises(SplitBrain, match="epoch 2 of node a"):
            async with running(store, epoch=epoch):
                pass
        async with running(store, epoch=1, node="b"):
            pass

    run(work())


def test_a_lock_of_a_higher_epoch_stops_the_server_too() -> None:
    """[KEEP-3]: only the record of the node was put back from an old copy."""

    async def work() -> None:
        store = FaultStore()
        await locked(store, wanted("a"), epoch=5)
        for key in [key for key in store.durable if key.startswith(b"n")]:
            del store.durable[key]
        with pytest.raises(SplitBrain):
            async with running(store, epoch=2):
                pass

    run(work())


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_stop_is_told_from_a_crash(is_clean: bool) -> None:
    """[KEEP-3]"""

    async def work() -> None:
        store = FaultStore()
        async with running(store, is_clean=is_clean) as here:
            assert here.service.previous_runs() == []
            await here.service.acquire(wanted("a"))
        async with running(store, epoch=2) as here:
            assert [run.is_clean for run in here.service.previous_runs()] == [is_clean]
            assert [run.epoch for run in here.service.previous_runs()] == [1]

    run(work())


# Ids


def test_lock_ids_go_on_over_restarts() -> None:
    """SPEC 8.5: also those of locks that are gone, and of a run that crashed."""

    async def work() -> None:
        store = FaultStore()
        used: list[int] = []
        for epoch in range(1, 6):
            async with running(store, epoch=epoch, limits=LockLimits(grace_seconds=0)) as here:
                for _ in range(3):
                    outcome, _ = await here.service.acquire(wanted("a"))
                    assert isinstance(outcome, Granted)
                    used.append(outcome.lock.id)
                    await kept((await here.service.release(FILE, owner("a"), ALL))[1])
        assert len(set(used)) == len(used)
        assert used == sorted(used)
        assert used[0] > 0

    run(work())


def test_lock_ids_of_another_node_do_not_meet_those_of_the_first() -> None:
    async def work() -> None:
        store = FaultStore()
        await locked(store, wanted("a"))
        async with running(store, node="b", limits=LockLimits(grace_seconds=0)) as here:
            outcome, _ = await here.service.acquire(wanted("b", 200, 300))
            assert isinstance(outcome, Granted)
            assert outcome.lock.id >= NODE_IDS

    run(work())


def test_ids_that_were_lost_with_a_batch_are_reserved_again() -> None:
    async def work() -> None:
        store = FaultStore()
        async with running(store) as here:
            store.fails_flush = True
            await kept((await here.service.acquire(wanted("a")))[1])
            store.fails_flush = False
            outcome, hold = await here.service.acquire(wanted("a"))
            await kept(hold)
            assert isinstance(outcome, Granted)
            last = outcome.lock.id
        async with running(store, epoch=2, limits=LockLimits(grace_seconds=0)) as here:
            outcome, _ = await here.service.acquire(wanted("b"))
            assert isinstance(outcome, Granted)
            assert outcome.lock.id > last

    run(work())


# Shares at run time


def test_a_share_that_is_added_freezes_no_other_and_one_that_is_removed_keeps_its_records() -> None:
    """[GRACE-3], SPEC 8.6"""

    async def work() -> None:
        first, second = FaultStore(), FaultStore()
        await locked(second, wanted("x"))
        async with running(first, epoch=2) as here:
            other = LocalTransactions(second)
            other.open()
            other.start(asyncio.get_running_loop())
            await kept((await here.service.acquire(wanted("a")))[1])
            # The same records under another share's id would be another share's: they are those of /export.
            await here.service.remove_share(EXPORT)
            assert not list(here.service.inspect.locks())
            await here.service.add_share(EXPORT, EXPORT_ID, other)
            await here.service.add_share(OTHER, OTHER_ID, here.transactions)
            assert [grace.share for grace in here.service.inspect.grace()] == [EXPORT]
            assert isinstance((await here.service.acquire(wanted("b")))[0], InGrace)
            free = FileRef(OTHER, FileId(3))
            assert isinstance((await here.service.acquire(wanted("b", file=free)))[0], Granted)
            await here.service.remove_share(EXPORT)
            assert not here.service.inspect.grace()
            await other.close()
        assert len([lock for lock in recorded(first) if lock.owner == owner("a")]) == 1
        assert [lock.owner for lock in recorded(second)] == [owner("x")]

    run(work())


def test_a_share_that_comes_back_in_the_same_run_has_its_locks_without_grace() -> None:
    async def work() -> None:
        store = FaultStore()
        async with running(store) as here:
            await kept((await here.service.acquire(wanted("a")))[1])
            await here.service.remove_share(EXPORT)
            await here.service.add_share(EXPORT, EXPORT_ID, here.transactions)
            assert not here.service.inspect.grace()
            assert isinstance((await here.service.acquire(wanted("b")))[0], Denied)

    run(work())


def test_who_waits_in_a_share_that_is_removed_hears_that_it_is_over() -> None:
    async def work() -> None:
        async with running(FaultStore()) as here:
            await kept((await here.service.acquire(wanted("a")))[1])
            await here.service.acquire(wanted("b", wait=True))
            await here.service.remove_share(EXPORT)
            assert [type(refusal.why) for refusal in here.heard.refusals] == [Ended]

    run(work())
