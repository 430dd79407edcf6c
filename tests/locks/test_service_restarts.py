"""What one run of a server leaves to the next: records and grace [KEEP-1] [KEEP-2] [GRACE-1..3]."""

import asyncio
from pathlib import Path

import pytest

from dittofs.locks.limits import LockLimits
from dittofs.locks.outcomes import (
    Granted,
    InGrace,
    ReclaimFault,
    ReclaimRefused,
    Released,
)
from dittofs.locks.service import LockService
from dittofs.locks.spans import Span
from dittofs.locks.values import Acquire, Mode, Origin, Owner
from dittofs.model.ids import ClientId, FileId, FileRef
from dittofs.stores import transactions as transactions_module
from dittofs.stores.metadata.embedded import EmbeddedMetadataStore
from dittofs.stores.transactions import LocalTransactions
from dittofs.testing.clock import FakeClock
from tests.locks.world import (
    ALL,
    EXPORT,
    EXPORT_ID,
    FILE,
    OTHER,
    OTHER_ID,
    SHARED,
    FaultStore,
    kept,
    locked,
    owner,
    recorded,
    run,
    running,
    until,
    wanted,
)

# Records


def test_all_fields_survive_at_full_range() -> None:
    """[KEEP-2]"""

    async def work() -> None:
        store = FaultStore()
        who = Owner("nlm:a:b/c:1:ff", ClientId("2001:db8::1 a:b/c%00"), svid=2**32 - 1, oh=bytes(range(256)) * 4)
        file = FileRef(EXPORT, FileId(2**64 - 1))
        request = Acquire(file, who, Span(2**64 - 2, 2**64), Mode.SHARED, state=2**31 - 1)
        async with running(store, epoch=2**40) as here:
            await kept((await here.service.acquire(request))[1])
            (held,) = here.service.inspect.locks()
        async with running(store, epoch=2**40 + 1) as here:
            assert list(here.service.inspect.locks()) == [held]
            assert held.origin == Origin("a", 2**40)
            assert here.service.inspect.grace()

    run(work())


def test_fragments_keep_their_own_ids_and_ranges() -> None:
    """SPEC 8.5: a split lock has two records, and both come back."""

    async def work() -> None:
        store = FaultStore()
        async with running(store) as here:
            await here.service.acquire(wanted("a", 0, 2**64))
            await kept((await here.service.release(FILE, owner("a"), Span(10, 20)))[1])
        assert [(lock.start, lock.end) for lock in recorded(store)] == [(0, 10), (20, 2**64)]
        assert len({lock.id for lock in recorded(store)}) == 2
        async with running(store, epoch=2) as here:
            assert sorted(here.service.inspect.locks(), key=lambda lock: lock.id) == recorded(store)

    run(work())


def test_equal_file_numbers_of_two_shares_are_two_files() -> None:
    """[KEEP-2]: both shares are kept in one store."""

    async def work() -> None:
        store = FaultStore()
        there = FileRef(OTHER, FILE.file)
        async with running(store) as here:
            await here.service.add_share(OTHER, OTHER_ID, here.transactions)
            for file, name in ((FILE, "a"), (there, "b")):
                outcome, hold = await here.service.acquire(wanted(name, file=file))
                assert isinstance(outcome, Granted)
            await kept(hold)
        async with running(store, epoch=2) as here:
            assert [lock.owner for lock in here.service.inspect.locks()] == [owner("a")]
            await here.service.add_share(OTHER, OTHER_ID, here.transactions)
            assert {(lock.file, lock.owner.id) for lock in here.service.inspect.locks()} == {
                (FILE, owner("a").id),
                (there, owner("b").id),
            }

    run(work())


def test_locks_of_a_server_that_is_no_more_are_pending_too() -> None:
    """The data directory was lost, the store was not: who held a lock may reclaim it, and nobody holds it for ever."""

    async def work() -> None:
        store = FaultStore()
        await locked(store, wanted("a"), wanted("b", 200, 300))
        async with running(store, node="new") as here:
            assert isinstance((await here.service.acquire(wanted("c", 500, 600)))[0], InGrace)
            assert isinstance((await here.service.acquire(wanted("a", reclaim=True)))[0], Granted)
            await kept(await here.service.end_grace(EXPORT))
        assert [(lock.owner.id, lock.origin.node) for lock in recorded(store)] == [(owner("a").id, "new")]

    run(work())


# Grace


def test_a_share_with_nothing_recorded_has_no_grace_also_after_a_crash() -> None:
    """[GRACE-3]"""

    async def work() -> None:
        store = FaultStore()
        async with running(store) as here:
            await here.service.acquire(wanted("a"))
            await kept((await here.service.release(FILE, owner("a"), ALL))[1])
        async with running(store, epoch=2) as here:
            assert not here.service.inspect.grace()
            assert isinstance((await here.service.acquire(wanted("b")))[0], Granted)

    run(work())


def test_without_a_grace_period_recorded_locks_are_dropped_durably() -> None:
    """`grace_seconds = 0`"""

    async def work() -> None:
        store = FaultStore()
        await locked(store, wanted("a"))
        async with running(store, epoch=2, limits=LockLimits(grace_seconds=0)) as here:
            assert recorded(store) == []
            outcome, _ = await here.service.acquire(wanted("a", reclaim=True))
            assert outcome == ReclaimRefused(ReclaimFault.OUTSIDE_GRACE)
            assert isinstance((await here.service.acquire(wanted("b")))[0], Granted)

    run(work())


def test_grace_ends_by_itself_and_drops_what_was_not_reclaimed() -> None:
    """[GRACE-3]: a client that reclaims one of its two locks loses the other."""

    async def work() -> None:
        store = FaultStore()
        await locked(store, wanted("a"), wanted("a", 200, 300))
        clock = FakeClock()
        limits = LockLimits(grace_seconds=0.02)
        async with running(store, epoch=2, limits=limits, monotonic=clock.monotonic) as here:
            outcome, hold = await here.service.acquire(wanted("a", reclaim=True))
            assert isinstance(outcome, Granted)
            await kept(hold)
            assert isinstance((await here.service.acquire(wanted("b", 200, 300)))[0], InGrace)
            clock.advance(limits.grace_seconds)
            await until(lambda: not here.service.inspect.grace())
            outcome, hold = await here.service.acquire(wanted("b", 200, 300))
            assert isinstance(outcome, Granted)
            await kept(hold)
            late, _ = await here.service.acquire(wanted("a", 200, 300, reclaim=True))
            assert late == ReclaimRefused(ReclaimFault.OUTSIDE_GRACE)
            assert {(lock.owner.id, lock.start) for lock in recorded(store)} == {
                (owner("a").id, 0),
                (owner("b").id, 200),
            }

    run(work())


def test_a_second_crash_in_grace_forgets_neither_the_reclaimed_nor_the_rest() -> None:
    """[GRACE-1], [GRACE-2]: locks of both runs are pending in the third."""

    async def work() -> None:
        store = FaultStore()
        await locked(store, wanted("a"), wanted("b", 200, 300))
        await locked(store, wanted("a", reclaim=True), epoch=2)
        async with running(store, epoch=3) as here:
            assert {entry.client for entry in here.service.inspect.grace()[0].roster} == {
                owner("a").client,
                owner("b").client,
            }
            for request in (wanted("a", reclaim=True), wanted("b", 200, 300, reclaim=True)):
                outcome, hold = await here.service.acquire(request)
                assert isinstance(outcome, Granted)
            assert not here.service.inspect.grace()
            await kept(hold)
        assert {lock.origin.epoch for lock in recorded(store)} == {3}

    run(work())


def test_two_clients_that_claim_the_same_get_what_each_had() -> None:
    """[GRACE-2]: covered by the claimer's own records, byte by byte."""

    async def work() -> None:
        store = FaultStore()
        await locked(store, wanted("a", 0, 100), wanted("b", 100, 200))
        async with running(store, epoch=2) as here:
            refused = ReclaimRefused(ReclaimFault.NOT_RECORDED)
            for request in (wanted("b", 0, 100, reclaim=True), wanted("b", 50, 150, reclaim=True)):
                assert (await here.service.acquire(request))[0] == refused
            assert (await here.service.acquire(wanted("c", 0, 1, reclaim=True)))[0] == refused
            assert isinstance((await here.service.acquire(wanted("b", 150, 160, reclaim=True)))[0], Granted)
            assert isinstance((await here.service.acquire(wanted("a", 0, 100, mode=SHARED, reclaim=True)))[0], Granted)

    run(work())


def test_unlocking_and_removing_settle_as_reclaiming_does() -> None:
    """[GRACE-2], [GRACE-3]: UNLOCK is served in grace."""

    async def work() -> None:
        store = FaultStore()
        elsewhere = FileRef(EXPORT, FileId(9))
        await locked(store, wanted("a"), wanted("b", file=elsewhere))
        async with running(store, epoch=2) as here:
            released, _ = await here.service.release(FILE, owner("a"), ALL)
            assert isinstance(released, Released)
            assert here.service.inspect.grace()
            await kept(await here.service.file_removed(elsewhere))
            assert not here.service.inspect.grace()
            assert recorded(store) == []

    run(work())


# Durability and time


def test_locks_are_flushed_at_once_whatever_the_share_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """[KEEP-1]: the service knows nothing of `relaxed`, and a batch with locks does not wait for its time."""
    monkeypatch.setattr(transactions_module, "RELAXED_FLUSH_SECONDS", 3600)

    async def work() -> None:
        store = FaultStore()
        async with running(store) as here:
            before = store.flushes
            await here.service.acquire(wanted("a"))
            await until(lambda: store.flushes == before + 1)  # nobody asked for it, and nobody waits

    run(work())


def test_the_clock_goes_on_when_the_wall_clock_was_set_back() -> None:
    async def work() -> None:
        store = FaultStore()
        clock = FakeClock()
        transactions = LocalTransactions(store)
        transactions.open()
        transactions.start(asyncio.get_running_loop())

        def service(epoch: int) -> LockService:
            return LockService(
                LockLimits(), Origin("a", epoch), wall=lambda: clock.time_ns() / 1e9, monotonic=clock.monotonic
            )

        first = service(1)
        await first.add_share(EXPORT, EXPORT_ID, transactions)
        before = first.now()
        await kept((await first.acquire(wanted("a")))[1])
        clock.set(clock.time_ns() - 3600 * 10**9)
        assert first.now() >= before
        second = service(2)
        await second.add_share(EXPORT, EXPORT_ID, transactions)
        assert second.now() >= before
        await transactions.close()

    run(work())


def test_the_embedded_store_brings_locks_back(tmp_path: Path) -> None:
    """[KEEP-1], over the real store."""

    async def work() -> None:
        async with running(EmbeddedMetadataStore(tmp_path / "meta")) as here:
            await kept((await here.service.acquire(wanted("a")))[1])
        async with running(EmbeddedMetadataStore(tmp_path / "meta"), epoch=2) as here:
            assert isinstance((await here.service.acquire(wanted("a", reclaim=True)))[0], Granted)
            assert not here.service.inspect.grace()

    run(work())
