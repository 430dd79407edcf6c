"""The view of a procedure over a local store: what is in memory of its tables, and what the procedure does to them.

What it reads is looked for in its own writes, in memory, and then in the store; and it is noted whether something of
that is not durable yet, for then its answer has to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from dittofs.model.ids import FileId
from dittofs.stores.tables import Table, View
from dittofs.stores.unchanged import Trail

if TYPE_CHECKING:
    from dittofs.stores.transactions import LocalTransactions

K = TypeVar("K")
R = TypeVar("R")
S = TypeVar("S")


class Rows:
    """One table in memory: decoded records as a cache, this turn's writes, and the keys of what is not durable yet:
    in the batch that is being flushed, and in the open one."""

    __slots__ = ("flushing", "fresh", "is_volatile", "open", "records", "table")

    def __init__(self, table: Table[Any, Any]):
        self.table = table
        self.is_volatile = table.is_volatile
        self.records: dict[Any, Any] = {}
        self.fresh: dict[Any, Any] = {}
        self.open: set[Any] = set()
        self.flushing: set[Any] = set()


class LocalView(View):
    """The view of the procedure that is running.  There is one, because procedures do not overlap."""

    __slots__ = ("_driver", "_effects", "_needs_hold", "_tables", "moment", "reads", "seen", "trail", "writes")

    def __init__(self, driver: LocalTransactions, tables: list[Rows]):
        self._driver = driver
        self._tables = tables
        self.writes: dict[tuple[int, Any], Any] = {}
        self._effects: list[object] = []
        self.seen = 0
        self.moment = 0
        self.reads = 0
        self.trail: Trail | None = None
        """What was read, if somebody wants to know, and all of it was there."""
        self._needs_hold = False

    @property
    def now(self) -> int:
        now = self.moment
        if not now:
            now = self.moment = self._driver.clock()
        return now

    def get(self, table: Table[K, R], key: K) -> R | None:
        self.reads += 1
        number = table.number
        record: R | None
        if self.writes:
            written = (number, key)
            if written in self.writes:
                record = self.writes[written]
                return record
        rows = self._tables[number]
        if rows.open and key in rows.open:
            self.seen = self._driver.newest_sequence
        elif rows.flushing and key in rows.flushing:
            self.seen = max(self.seen, self._driver.flushing_sequence)
        record = rows.records.get(key)
        if record is None and not rows.is_volatile:
            record = self._driver.load(rows, key)
            if record is None:
                self.trail = None  # what is not there cannot be recognised
        trail = self.trail
        if trail is not None:
            trail += (rows.records, key, record)
        return record

    def get_all(self, table: Table[K, R], keys: Sequence[K]) -> list[R | None]:
        """A loop in C where nothing stands in the way, which is nearly always."""
        if self.writes:
            return [self.get(table, key) for key in keys]
        self.reads += len(keys)
        rows = self._tables[table.number]
        if rows.open and not rows.open.isdisjoint(keys):
            self.seen = self._driver.newest_sequence
        elif rows.flushing and not rows.flushing.isdisjoint(keys):
            self.seen = max(self.seen, self._driver.flushing_sequence)
        found: list[R | None] = list(map(rows.records.get, keys))
        if rows.is_volatile or all(found):
            return found
        load = self._driver.load
        return [load(rows, key) if record is None else record for key, record in zip(keys, found, strict=True)]

    def put(self, table: Table[K, R], key: K, record: R) -> None:
        self.writes[(table.number, key)] = record

    def delete(self, table: Table[K, R], key: K) -> None:
        self.writes[(table.number, key)] = None

    def merge(self, table: Table[K, R], key: K, change: Callable[[R, S], R], argument: S) -> R:
        record = self.get(table, key)
        assert record is not None, f"merge into a {table.name} that is not there"
        changed = change(record, argument)
        self.writes[(table.number, key)] = changed
        return changed

    def scan(self, table: Table[K, R], start: K, end: K, limit: int) -> Sequence[tuple[K, R]]:
        rows = self._tables[table.number]
        if rows.open:
            self.seen = self._driver.newest_sequence
        elif rows.flushing:
            self.seen = max(self.seen, self._driver.flushing_sequence)
        own = {key: record for (number, key), record in self.writes.items() if number == table.number}
        if not own:
            return self._driver.scan(rows, start, end, limit)
        found = dict(self._driver.scan(rows, start, end, limit + len(own)))
        for key, record in own.items():
            if record is None:
                found.pop(key, None)
            elif start <= key < end:
                found[key] = record
        return sorted(found.items())[:limit]

    def new_file_id(self) -> FileId:
        driver = self._driver
        number = driver.next_file_id
        driver.next_file_id = number + 1
        if number >= driver.durable_file_ids:
            self._needs_hold = True
        return FileId(number)

    def after(self, effect: object) -> None:
        self._effects.append(effect)

    # The driver's side.

    def take_trail(self) -> Trail | None:
        trail, self.trail = self.trail, None
        return trail

    def take(self) -> tuple[dict[tuple[int, Any], Any], list[object], int, bool]:
        """What the procedure did; the view is then ready for the next one."""
        writes, effects, seen, needs_hold = self.writes, self._effects, self.seen, self._needs_hold
        if writes:
            self.writes = {}
        if effects:
            self._effects = []
        self.seen = self.moment = 0
        self._needs_hold = False
        return writes, effects, seen, needs_hold
