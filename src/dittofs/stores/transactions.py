"""Runs metadata procedures over a local store, and makes many of them durable with one flush.

A procedure runs once, start to end, over the one `LocalView`.  What it wrote is visible to the next procedure at once;
the writes of all procedures of one turn of the event loop go to the store as one batch, and a committer flushes
batches, mostly while the loop goes on.  An answer waits for the batch it wrote to, or has seen a record of [STORE-3].

Stores that must be asked over a network get a driver of their own with the same face.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar, cast

from dittofs.metrics.counting import StoreCounts
from dittofs.model.errors import FileError, NoSpace, StoreFailure
from dittofs.stores.api import Change, MetadataStore, StoreError, StoreFull
from dittofs.stores.batches import Batch
from dittofs.stores.committing import Committer
from dittofs.stores.counters import COUNTERS, FILE_IDS, Reservation
from dittofs.stores.local_view import LocalView, Rows
from dittofs.stores.tables import Table, all_tables
from dittofs.stores.unchanged import Changes, Unchanged

K = TypeVar("K")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

IDS_AHEAD = 65_536
"""File ids are reserved on disk this many at a time, so that none is ever given out twice [NFS-7]."""

RELAXED_FLUSH_SECONDS = 1.0

_key_of = itemgetter(0)
_value_of = itemgetter(1)


class LocalTransactions:
    """The driver for a store that answers without waiting."""

    is_shared = False

    def __init__(
        self,
        store: MetadataStore,
        *,
        cache_records: int = 100_000,
        clock: Callable[[], int] = time.time_ns,
    ):
        self.store = store
        self.is_volatile = store.is_volatile
        self.clock = clock
        self.hold: Batch | None = None
        """What the answer of the procedure that ran last has to wait for."""
        self.next_file_id = self.reserved_file_ids = self.durable_file_ids = 0
        self.on_effect: Callable[[object, Batch | None], None] = _no_effects_expected
        self.on_loss: Callable[[FileError], None] = _loss_is_told_to_the_calls
        self.flushes = 0
        self._changes = Changes()
        self._counts = StoreCounts()
        self._trouble = ""
        self._flush_began = 0.0
        self._cache_records = cache_records
        self._tables = [Rows(table) for table in all_tables()]
        self._view = LocalView(self, self._tables)
        self._open = Batch(1, self._wanted)
        self._flushing: Batch | None = None
        self._durable_sequence = 0
        self._refused: StoreError | None = None
        self._is_turn_ending = False
        self._relaxed_timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._committer: Committer | None = None
        self._idle: asyncio.Event = asyncio.Event()
        self._idle.set()

    @property
    def trouble(self) -> str:
        """Why the last batch was lost, if no later one was kept."""
        return self._trouble

    @property
    def counts(self) -> StoreCounts:
        self._counts.reads = self._view.reads
        return self._counts

    @property
    def newest_sequence(self) -> int:
        return self._open.sequence

    @property
    def flushing_sequence(self) -> int:
        return 0 if self._flushing is None else self._flushing.sequence

    # Life.

    def open(self) -> None:
        """Open the store and reserve file ids, durably, before the first call."""
        self.store.open()
        found = self.store.get(COUNTERS.pack(FILE_IDS))
        first = COUNTERS.decode(found).end if found else 1
        self.next_file_id = first
        self.reserved_file_ids = self.durable_file_ids = first + 2 * IDS_AHEAD
        self.store.apply([(COUNTERS.pack(FILE_IDS), COUNTERS.encode(Reservation(self.reserved_file_ids)))])
        if not self.is_volatile:
            self.store.flush()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        if not self.is_volatile:
            self._committer = Committer(self.store, loop, self._flushed)

    async def close(self) -> None:
        """Finish what is under way and close the store."""
        self._end_of_turn()
        self._begin_flush(even_if_relaxed=True)
        await self._idle.wait()
        if self._relaxed_timer is not None:
            self._relaxed_timer.cancel()
        if self._committer is not None:
            self._committer.stop()
        self.store.close()

    # Running procedures.

    def run(self, function: Callable[..., T], *args: Any, is_relaxed: bool = False) -> T:
        """Run `function(view, *args)`.  It is kept whole if it returns, and leaves nothing if it raises.  Afterwards
        `hold` is what an answer has to wait for, an answer that tells of an error too."""
        view = self._view
        try:
            result = function(view, *args)
        except BaseException:
            seen = view.take()[2]
            self.hold = self._batch_of(seen) if seen > self._durable_sequence and not is_relaxed else None
            raise
        if not view.writes:
            seen = view.seen
            view.seen = view.moment = 0
            self.hold = self._batch_of(seen) if seen > self._durable_sequence and not is_relaxed else None
            return result
        self._keep(is_relaxed)
        return result

    def look(self, function: Callable[..., T], *args: Any, is_relaxed: bool = False) -> tuple[T, Unchanged | None]:
        """Run a procedure that only looks; also what tells whether its result is still true later on, if that can be
        told: not of what waits to become durable, nor of what is not there."""
        self._view.trail = []
        try:
            result = self.run(function, *args, is_relaxed=is_relaxed)
        finally:
            trail = self._view.take_trail()
        return result, None if trail is None or self.hold is not None else Unchanged(self._changes, trail)

    async def perform(self, function: Callable[..., T], *args: Any, is_relaxed: bool = False) -> T:
        """Run it, and wait until what it saw and wrote is durable."""
        # Not with `finally`: mypyc raises an error that passed an `await` in there a second time.
        failure: Exception | None = None
        result: T | None = None
        try:
            result = self.run(function, *args, is_relaxed=is_relaxed)
        except Exception as error:
            failure = error
        hold = self.hold
        if hold is not None:
            await self.durable(hold)
        if failure is not None:
            raise failure
        return cast("T", result)

    def durable(self, hold: Batch) -> "asyncio.Future[None]":
        """Done when the batch is durable; fails if it is lost."""
        assert self._loop is not None, "the driver is not started"
        future: asyncio.Future[None] = self._loop.create_future()

        def settled(error: FileError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        hold.when_settled(settled)
        return future

    def _keep(self, is_relaxed: bool) -> None:
        writes, effects, seen, needs_hold = self._view.take()
        waits_for = self._batch_of(seen) if seen > self._durable_sequence else None
        batch, tables = self._open, self._tables
        is_durable = not self.is_volatile
        written = 0
        self._changes.count += 1
        for (number, key), record in writes.items():
            rows = tables[number]
            if record is None:
                rows.records.pop(key, None)
            else:
                rows.records[key] = record
            if rows.is_volatile:
                continue
            rows.fresh[key] = record
            written += 1
            if is_durable:
                rows.open.add(key)
        kept_in = None
        if written:
            if not self._is_turn_ending:
                self._wanted()
            if is_durable:
                batch.changes += written
                kept_in = batch
        for effect in effects:
            self.on_effect(effect, kept_in)
        # Last: an effect may have run a procedure of its own, in the same batch.
        self.hold = (kept_in or waits_for) if needs_hold or not is_relaxed else None

    def put_all(self, table: Table[K, R], records: Mapping[K, R | None]) -> Batch | None:
        """Write records of one durable table, and delete those that are None, without a procedure; answers with what an
        answer has to wait for.  For whoever decides elsewhere, and often."""
        batch: Batch | None = None
        for key, record in records.items():
            batch = self.put_one(table, key, record)
        return batch

    def put_one(self, table: Table[K, R], key: K, record: R | None) -> Batch | None:
        """The same for one record."""
        assert not table.is_volatile, "what is only in memory needs no batch"
        rows = self._tables[table.number]
        if table.has_witnesses:
            self._changes.count += 1
        rows.fresh[key] = record
        if record is None:
            rows.records.pop(key, None)
        else:
            rows.records[key] = record
        if not self._is_turn_ending:
            self._wanted()
        if self.is_volatile:
            return None
        batch = self._open
        rows.open.add(key)
        batch.changes += 1
        return batch

    def _batch_of(self, sequence: int) -> Batch:
        flushing = self._flushing
        if flushing is not None and sequence <= flushing.sequence:
            return flushing
        return self._open

    # Reading below the view.

    def load(self, rows: Rows, key: Any) -> Any:
        if key in rows.fresh:
            return None  # removed in this turn
        table = rows.table
        self._counts.loads += 1
        value = self.store.get(table.pack(key))
        if value is None:
            return None
        records = rows.records
        record = records[key] = table.decode(value)
        if len(records) > self._cache_records:
            self._evict(rows)
        return record

    def _evict(self, rows: Rows) -> None:
        """Drop the records that came first; those of this turn are in `fresh` too, and stay reachable in the store
        once applied, so they are passed over."""
        for key in list(islice(rows.records, self._cache_records // 8)):
            if key not in rows.fresh:
                del rows.records[key]

    def scan(self, rows: Rows, start: Any, end: Any, limit: int) -> list[tuple[Any, Any]]:
        table = rows.table
        if table.is_volatile:
            inside = sorted(item for item in rows.records.items() if start <= item[0] < end)
            return inside[:limit]
        if rows.fresh:
            self._apply_early()
        self._counts.scans += 1
        found = self.store.scan(table.pack(start), table.pack(end), limit)
        keys = map(table.unpack, map(_key_of, found))
        return list(zip(keys, map(table.decode, map(_value_of, found)), strict=True))

    # Group commit.

    def _wanted(self) -> None:
        """See to the open batch when this turn of the loop is over."""
        if not self._is_turn_ending:
            assert self._loop is not None, "the driver is not started"
            self._is_turn_ending = True
            self._loop.call_soon(self._end_of_turn)

    def _apply(self) -> None:
        """Hand this turn's writes to the store."""
        changes: list[Change] = []
        for rows in self._tables:
            if not rows.fresh:
                continue
            pack, encode = rows.table.pack, rows.table.encode
            for key, record in rows.fresh.items():
                changes.append((pack(key), None if record is None else encode(record)))
            rows.fresh = {}
            if len(rows.records) > self._cache_records:
                self._evict(rows)
        if not changes:
            return
        if self.next_file_id + IDS_AHEAD > self.reserved_file_ids:
            self.reserved_file_ids = self._open.reserved_file_ids = self.next_file_id + 2 * IDS_AHEAD
            changes.append((COUNTERS.pack(FILE_IDS), COUNTERS.encode(Reservation(self.reserved_file_ids))))
        self.store.apply(changes)

    def _apply_early(self) -> None:
        """The same within a procedure.  What the store refuses is lost when the turn ends: this procedure fails, and so
        do those before it."""
        if self._refused is None:
            try:
                self._apply()
            except StoreError as error:
                self._refused = error
                self._wanted()
        if self._refused is not None:
            raise _told(self._refused) from self._refused

    def _end_of_turn(self) -> None:
        self._is_turn_ending = False
        # After a refusal nothing may follow: a flush under way could make that durable without what it needs.
        if self._refused is None:
            try:
                self._apply()
            except StoreError as error:
                self._refused = error
        if self._refused is not None:
            if self._flushing is None:
                self._lose(self._refused)
            return
        if not self.is_volatile:
            self._begin_flush()

    def _begin_flush(self, *, even_if_relaxed: bool = False) -> None:
        batch = self._open
        if self._flushing is not None or not batch.changes:
            return
        assert self._loop is not None, "the driver is not started"
        assert self._committer is not None, "the driver is not started"
        if not batch.is_urgent and not even_if_relaxed:
            if self._relaxed_timer is None:
                self._relaxed_timer = self._loop.call_later(RELAXED_FLUSH_SECONDS, self._relaxed_flush)
            return
        self._flushing = batch
        self._open = Batch(batch.sequence + 1, self._wanted)
        for rows in self._tables:
            if rows.open:
                rows.flushing, rows.open = rows.open, set()
        self._idle.clear()
        self._counts.batch_sizes.observe(batch.changes)
        self._flush_began = time.monotonic()
        self._committer.flush(batch.changes)

    def _relaxed_flush(self) -> None:
        """Not at once: what this turn has written goes to the store when the turn ends, and is flushed after that."""
        self._relaxed_timer = None
        if self._open.changes:
            self._open.is_urgent = True
            self._wanted()

    def _flushed(self, error: BaseException | None) -> None:
        """Called in the loop when the committer is done with a batch."""
        batch, self._flushing = self._flushing, None
        assert batch is not None, "a flush ended that was not begun"
        self.flushes += 1
        self._counts.flush_seconds.observe(time.monotonic() - self._flush_began)
        if error is not None:
            self._lose(error, batch)
            return
        self._durable_sequence = batch.sequence
        self._trouble = ""
        self.durable_file_ids = max(self.durable_file_ids, batch.reserved_file_ids)
        for rows in self._tables:
            if rows.flushing:
                rows.flushing = set()
        batch.settle(None)
        if self._refused is not None:
            self._lose(self._refused)
            return
        self._idle.set()
        if not self._is_turn_ending:
            self._begin_flush()

    def _lose(self, error: BaseException, flushing: Batch | None = None) -> None:
        """The store refused a batch: it and all later ones never happened, and their calls are told."""
        lost = [batch for batch in (flushing, self._open) if batch is not None]
        self._refused = None
        self._changes.count += 1
        self._counts.lost += len(lost)
        self._open = Batch(self._open.sequence + 1, self._wanted)
        for rows in self._tables:
            rows.fresh = {}
            rows.open = set()
            rows.flushing = set()
            if not rows.is_volatile:
                rows.records.clear()
        self.reserved_file_ids = self.durable_file_ids
        reason = _told(error)
        try:
            self.store.revert()
        except StoreError as failure:
            reason = StoreFailure(str(failure))
        self._trouble = str(reason)
        self.on_loss(reason)
        for batch in lost:
            batch.settle(reason)
        self._idle.set()


def _told(error: BaseException) -> FileError:
    """What the calls of a lost batch are told."""
    return NoSpace(str(error)) if isinstance(error, StoreFull) else StoreFailure(str(error))


def _no_effects_expected(effect: object, hold: Batch | None) -> None:
    raise AssertionError(f"nobody performs {effect!r}: set on_effect")


def _loss_is_told_to_the_calls(reason: FileError) -> None:
    """The default: whoever waits for a lost batch hears of it anyway."""
