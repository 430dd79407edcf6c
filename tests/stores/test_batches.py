"""Batches of the local driver at their edges: a store that refuses one turn's writes while an earlier batch is being
flushed, who asks late, and writes without a procedure."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from dittofs.model.errors import FileError, StoreFailure
from dittofs.stores.api import Change
from dittofs.stores.batches import Batch
from dittofs.stores.counters import COUNTERS, FILE_IDS, Reservation
from dittofs.stores.tables import NamedTable, View
from dittofs.stores.transactions import LocalTransactions
from tests.locks.world import FaultStore

TABLE: NamedTable[Reservation] = COUNTERS
SHADOWS: NamedTable[Reservation] = NamedTable("shadow of a test", b"\xf7", Reservation, is_volatile=True)


class SlowStore(FaultStore):
    """Flushes when it is let, and makes durable all that is applied by then."""

    def __init__(self) -> None:
        super().__init__()
        self.let = threading.Event()
        self.let.set()
        self.applied: list[Sequence[Change]] = []

    def apply(self, changes: Sequence[Change]) -> None:
        super().apply(changes)
        self.applied.append(changes)

    def flush(self) -> None:
        assert self.let.wait(20)
        super().flush()


def put(view: View, name: bytes, number: int) -> None:
    view.put(TABLE, name, Reservation(number))


def names(view: View) -> list[bytes]:
    return [name for name, _ in view.scan(TABLE, b"", b"\xff", 100)]


def get_first(view: View) -> int:
    found = view.get(TABLE, b"first")
    assert found is not None
    return found.end


async def settled(batch: Batch | None) -> FileError | None:
    assert batch is not None
    future: asyncio.Future[FileError | None] = asyncio.get_running_loop().create_future()
    batch.when_settled(future.set_result)
    return await future


async def turn() -> None:
    for _ in range(2):
        await asyncio.sleep(0)


@pytest.fixture
def store() -> SlowStore:
    return SlowStore()


async def started(store: SlowStore) -> LocalTransactions:
    transactions = LocalTransactions(store)
    transactions.open()
    transactions.start(asyncio.get_running_loop())
    return transactions


def test_nothing_is_applied_after_a_refused_turn(store: SlowStore) -> None:
    """[STORE-3]: else the flush that is under way could keep a turn without the one before it."""

    async def work() -> None:
        transactions = await started(store)
        store.let.clear()
        transactions.run(put, b"first", 1)
        first = asyncio.ensure_future(settled(transactions.hold))
        await turn()
        store.fails_apply = True
        transactions.run(put, b"refused", 2)
        refused = asyncio.ensure_future(settled(transactions.hold))
        await turn()
        store.fails_apply = False
        before = len(store.applied)
        transactions.run(put, b"behind it", 3)
        behind = asyncio.ensure_future(settled(transactions.hold))
        await turn()
        assert len(store.applied) == before
        store.let.set()
        assert await first is None
        assert isinstance(await refused, StoreFailure)
        assert isinstance(await behind, StoreFailure)
        assert transactions.run(names) == [b"file-id", b"first"]
        await transactions.close()

    asyncio.run(asyncio.wait_for(work(), 20))


def test_a_scan_that_meets_a_refusal_fails_and_so_do_the_writes_before_it(store: SlowStore) -> None:
    """[STORE-3]: the writes of the turn are applied for the scan's sake, and the store refuses them."""

    async def work() -> None:
        transactions = await started(store)
        store.fails_apply = True
        transactions.run(put, b"lost", 1)
        lost = asyncio.ensure_future(settled(transactions.hold))
        await asyncio.sleep(0)
        transactions.run(put, b"lost too", 2)
        with pytest.raises(StoreFailure):
            transactions.run(names)
        assert isinstance(await lost, StoreFailure)
        store.fails_apply = False
        assert transactions.run(names) == [b"file-id"]
        await transactions.close()

    asyncio.run(asyncio.wait_for(work(), 20))


def test_who_asks_late_hears_at_once_what_became_of_a_batch(store: SlowStore) -> None:
    async def work() -> None:
        transactions = await started(store)
        transactions.run(put, b"kept", 1)
        batch = transactions.hold
        assert await settled(batch) is None
        assert await settled(batch) is None
        await transactions.close()

    asyncio.run(asyncio.wait_for(work(), 20))


def number_of(view: View, name: bytes) -> int | None:
    found = view.get(TABLE, name)
    return None if found is None else found.end


def test_records_put_without_a_procedure_are_seen_kept_and_lost_like_others(store: SlowStore) -> None:
    """[KEEP-1], [STORE-3]: in the same batch as what procedures write in this turn."""

    async def work() -> None:
        transactions = await started(store)
        transactions.run(put, b"a", 1)
        batch = transactions.hold
        assert transactions.put_all(TABLE, {b"b": Reservation(2), b"c": Reservation(3)}) is batch
        assert transactions.put_all(TABLE, {b"c": None}) is batch
        assert [transactions.run(number_of, name) for name in (b"a", b"b", b"c")] == [1, 2, None]
        assert transactions.hold is batch, "who sees it waits for it"
        assert await settled(batch) is None
        assert COUNTERS.pack(b"b") in store.durable
        assert COUNTERS.pack(b"c") not in store.durable
        store.fails_flush = True
        lost = transactions.put_all(TABLE, {b"b": None, b"d": Reservation(4)})
        assert isinstance(await settled(lost), StoreFailure)
        assert [transactions.run(number_of, name) for name in (b"b", b"d")] == [2, None]
        store.fails_flush = False
        await transactions.close()

    asyncio.run(asyncio.wait_for(work(), 20))


@pytest.mark.parametrize("key", [b"new", b"old"])
def test_who_has_seen_one_of_many_that_is_not_durable_waits(store: SlowStore, key: bytes) -> None:
    """[STORE-3], for reading many keys as for reading one."""

    async def story() -> None:
        driver = await started(store)
        await driver.perform(put, b"old", 1)
        store.let.clear()
        driver.run(put, b"new", 2)
        batch = driver.hold
        driver.run(lambda view: view.get_all(TABLE, [b"none", key]))
        assert driver.hold is (batch if key == b"new" else None)
        store.let.set()
        await driver.close()

    asyncio.run(story())


def test_who_scans_waits_for_the_batch_that_is_flushed_and_for_no_other(store: SlowStore) -> None:
    """An open batch that nobody has written to is not flushed: whoever waited for it would wait for ever."""

    async def work() -> None:
        transactions = await started(store)
        store.let.clear()
        transactions.run(put, b"first", 1)
        flushed = transactions.hold
        assert flushed is not None
        flushed.when_settled(lambda error: None)
        await turn()
        assert transactions.run(names) == [FILE_IDS, b"first"]
        assert transactions.hold is flushed
        assert transactions.run(get_first) == 1
        assert transactions.hold is flushed
        transactions.run(put, b"second", 2)
        newest = transactions.hold
        assert transactions.run(names) == [FILE_IDS, b"first", b"second"]
        assert transactions.hold is newest is not flushed
        assert transactions.run(get_first) == 1
        assert transactions.hold is flushed
        store.let.set()
        assert await settled(newest) is None
        assert transactions.run(names) == [FILE_IDS, b"first", b"second"]
        assert transactions.hold is None
        await transactions.close()

    asyncio.run(work())


def test_relaxed_flush_takes_what_the_turn_has_written(store: SlowStore) -> None:
    """[KEEP-1]: the timer of a relaxed share may be due in the middle of a turn that others' answers wait for."""

    async def work() -> None:
        transactions = await started(store)
        transactions.run(put, b"first", 1, is_relaxed=True)
        await turn()
        applied = len(store.applied)
        transactions.run(put, b"second", 2)
        transactions._relaxed_flush()
        assert transactions._flushing is None, "what is not with the store yet cannot be flushed"
        assert await settled(transactions.hold) is None
        assert len(store.applied) == applied + 1
        await transactions.close()

    asyncio.run(work())


def test_who_changes_only_what_is_in_memory_waits_for_what_he_has_seen(store: SlowStore) -> None:
    """[STORE-3]: an unstable WRITE tells attributes that a SETATTR before it may have changed."""

    def shadow(view: View) -> int:
        view.put(SHADOWS, b"first", Reservation(0))
        return get_first(view)

    async def work() -> None:
        transactions = await started(store)
        store.let.clear()
        transactions.run(put, b"first", 1)
        changed = transactions.hold
        assert transactions.run(shadow) == 1
        assert transactions.hold is changed
        store.let.set()
        assert await settled(changed) is None
        transactions.run(shadow)
        assert transactions.hold is None
        await transactions.close()

    asyncio.run(work())
