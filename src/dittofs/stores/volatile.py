"""Runs metadata procedures over records that live in this process only, and are gone with it: the memory store.

Records are kept as they are and never encoded.  A procedure changes them in place; if it raises, what it changed is put
back.  There is nothing to flush, so no answer ever waits.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final, TypeVar

from sortedcontainers import SortedList

from dittofs.metrics.counting import StoreCounts
from dittofs.model.errors import FileError
from dittofs.model.ids import FileId
from dittofs.stores.tables import Table, View, all_tables
from dittofs.stores.unchanged import Changes, Trail, Unchanged

K = TypeVar("K")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


FEW: Final = 64
"""So few are sorted each time: a table that is walked while it is empty, when a share is opened, keeps no order."""

ORDERED_ANEW: Final = 4
"""When more than one key in so many has moved, sorting all of them is quicker than moving each."""


_key_of: Final = itemgetter(0)


class _Rows:
    """One table.  Its keys are sorted when somebody walks them, and whoever never does pays nothing."""

    __slots__ = ("_keys", "_moved", "is_ordered", "records")

    def __init__(self) -> None:
        self.records: dict[Any, Any] = {}
        self.is_ordered = False
        self._keys: SortedList = SortedList()
        self._moved: dict[Any, bool] = {}

    def write(self, key: Any, record: Any) -> Any:
        """Keep a record, or none; answers with what was there."""
        records = self.records
        old = records.get(key)
        if record is not None:
            records[key] = record
        elif old is not None:
            del records[key]
        if self.is_ordered and (old is None) is not (record is None):
            self.moved(key, old is not None)
        return old

    def moved(self, key: Any, is_in: bool) -> None:
        """A key came or went; `is_in` says whether the order has it still."""
        # What came and went again, or the other way round, has not moved: nothing is left of it.
        if self._moved.pop(key, None) is None:
            self._moved[key] = is_in

    def scan(self, start: Any, end: Any, limit: int) -> list[tuple[Any, Any]]:
        """The first `limit` records with start <= key < end."""
        records = self.records
        if not self.is_ordered:
            if len(records) <= FEW:
                found = [item for item in records.items() if start <= item[0] < end]
                return sorted(found, key=_key_of)[: max(0, limit)]
            self.is_ordered = True
            self._keys = SortedList(records)
        elif self._moved:
            self._order_moved()
        keys = list(islice(self._keys.irange(start, end, inclusive=(True, False)), max(0, limit)))
        return [(key, records[key]) for key in keys]

    def _order_moved(self) -> None:
        """Bring the order up to date: `_moved` says of each key that came or went whether it is in there."""
        moved, self._moved = self._moved, {}
        records, keys = self.records, self._keys
        if len(moved) * ORDERED_ANEW > len(keys):
            self._keys = SortedList(records)
            return
        for key, is_in in moved.items():
            if is_in and key not in records:
                keys.remove(key)
        keys.update([key for key, is_in in moved.items() if not is_in and key in records])


class VolatileView(View):
    """The view of the procedure that is running.  There is one, because procedures do not overlap."""

    __slots__ = ("_driver", "_records", "_tables", "effects", "moment", "reads", "undo")

    def __init__(self, driver: "VolatileTransactions", tables: list[_Rows]):
        self._driver = driver
        self._tables = tables
        self._records = [rows.records for rows in tables]
        self.undo: list[tuple[_Rows, Any, Any]] = []
        """What was there before, oldest first."""
        self.effects: list[object] = []
        self.moment = 0
        self.reads = 0

    @property
    def now(self) -> int:
        now = self.moment
        if not now:
            now = self.moment = self._driver.clock()
        return now

    def get(self, table: Table[K, R], key: K) -> R | None:
        self.reads += 1
        record: R | None = self._records[table.number].get(key)
        return record

    def get_all(self, table: Table[K, R], keys: Sequence[K]) -> list[R | None]:
        self.reads += len(keys)
        return list(map(self._records[table.number].get, keys))

    def put(self, table: Table[K, R], key: K, record: R) -> None:
        rows = self._tables[table.number]
        records = rows.records
        old = records.get(key)
        records[key] = record
        if old is None and rows.is_ordered:
            rows.moved(key, False)
        self.undo.append((rows, key, old))

    def delete(self, table: Table[K, R], key: K) -> None:
        rows = self._tables[table.number]
        self.undo.append((rows, key, rows.write(key, None)))

    def merge(self, table: Table[K, R], key: K, change: Callable[[R, S], R], argument: S) -> R:
        rows = self._tables[table.number]
        records = rows.records
        record = records.get(key)
        assert record is not None, f"merge into a {table.name} that is not there"
        changed = records[key] = change(record, argument)
        self.undo.append((rows, key, record))
        return changed

    def scan(self, table: Table[K, R], start: K, end: K, limit: int) -> Sequence[tuple[K, R]]:
        return self._tables[table.number].scan(start, end, limit)

    def new_file_id(self) -> FileId:
        driver = self._driver
        number = driver.next_file_id
        driver.next_file_id = number + 1
        return FileId(number)

    def after(self, effect: object) -> None:
        self.effects.append(effect)

    # The driver's side.

    def put_back(self) -> None:
        """Leave nothing of a procedure that raised."""
        while self.undo:
            rows, key, old = self.undo.pop()
            rows.write(key, old)
        self.effects = []
        self.moment = 0


class _LookingView(VolatileView):
    """The view of a procedure that only looks, and of which somebody wants to know what it read."""

    __slots__ = ("trail",)

    def __init__(self, driver: "VolatileTransactions", tables: list[_Rows]):
        super().__init__(driver, tables)
        self.trail: Trail = []

    def get(self, table: Table[K, R], key: K) -> R | None:
        assert table.has_witnesses, f"who only looks does not look at a {table.name}"
        self.reads += 1
        records = self._records[table.number]
        record: R | None = records.get(key)
        self.trail += (records, key, record)
        return record


class VolatileTransactions:
    """The driver of the memory store."""

    is_shared = False
    is_volatile = True
    hold = None
    """Nothing becomes durable: there is never anything to wait for."""
    trouble = ""

    def __init__(self, *, clock: Callable[[], int] = time.time_ns):
        self.clock = clock
        self.next_file_id = 1
        self.on_effect: Callable[[object, None], None] = _no_effects_expected
        self.on_loss: Callable[[FileError], None] = _nothing_is_lost
        self._counts = StoreCounts()
        self._changes = Changes()
        self._tables = [_Rows() for _ in all_tables()]
        self._view = VolatileView(self, self._tables)
        self._looking = _LookingView(self, self._tables)

    @property
    def counts(self) -> StoreCounts:
        self._counts.reads = self._view.reads + self._looking.reads
        return self._counts

    def open(self) -> None:
        """There is nothing to open."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Nothing has to be done later."""

    async def close(self) -> None:
        for rows in self._tables:
            rows.records.clear()

    def run(self, function: Callable[..., T], *args: Any, is_relaxed: bool = False) -> T:
        """Run `function(view, *args)`.  It is kept whole if it returns, and leaves nothing if it raises."""
        view = self._view
        try:
            result = function(view, *args)
        except BaseException:
            view.put_back()
            raise
        view.moment = 0
        if view.undo:
            view.undo.clear()
            self._changes.count += 1
        if view.effects:
            effects, view.effects = view.effects, []
            for effect in effects:
                self.on_effect(effect, None)
        return result

    def look(self, function: Callable[..., T], *args: Any, is_relaxed: bool = False) -> tuple[T, Unchanged]:
        """Run a procedure that only looks; also what tells whether its result is still true later on."""
        view = self._looking
        trail: Trail = []
        view.trail = trail
        try:
            result = function(view, *args)
        finally:
            view.moment = 0
        assert not view.undo, "it only looks"
        return result, Unchanged(self._changes, trail)

    async def perform(self, function: Callable[..., T], *args: Any, is_relaxed: bool = False) -> T:
        return self.run(function, *args)

    def put_all(self, table: Table[K, R], records: Mapping[K, R | None]) -> None:
        """Write records of one table, and delete those that are None, without a procedure."""
        for key, record in records.items():
            self.put_one(table, key, record)

    def put_one(self, table: Table[K, R], key: K, record: R | None) -> None:
        """The same for one record."""
        self._tables[table.number].write(key, record)
        if table.has_witnesses:
            self._changes.count += 1


def _no_effects_expected(effect: object, hold: None) -> None:
    raise AssertionError(f"nobody performs {effect!r}: set on_effect")


def _nothing_is_lost(reason: FileError) -> None:
    """There is no store below that could refuse anything."""
