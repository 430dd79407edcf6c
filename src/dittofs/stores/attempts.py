"""One procedure over a store that has to be asked: its view, which knows what it read, and may have to be run again.

A run reads what is at hand, and raises `Miss` at the first record that is not: the driver then loads it, together with
what all other calls of the turn miss, and runs the procedure again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from dittofs.model.ids import FileId
from dittofs.model.later import Done
from dittofs.stores.sharing import ABSENT
from dittofs.stores.tables import Table, all_tables

K = TypeVar("K")
R = TypeVar("R")
S = TypeVar("S")

Pair = tuple[int, Any]
"""A table's number and a key of it."""

OVERLAID = -2
"""The version of a record that an earlier call of the same batch has written."""


class Found(NamedTuple):
    """A record, None if there is none, with its version and its key as the store has it."""

    version: int
    record: Any
    packed: bytes


VACANT = Found(ABSENT, None, b"")
"""No record in a volatile table."""

Known = Mapping[Pair, Found]


class RangeKey(NamedTuple):
    table: int
    start: Any
    end: Any


class Rows(NamedTuple):
    """What was found in a range when `limit` records were asked for."""

    limit: int
    found: list[tuple[Any, Found]]


class Miss(BaseException):
    """A run needs what is not at hand.  Not an Exception: no procedure may take it for its own."""

    def __init__(self, pair: Pair | None = None, range_: tuple[RangeKey, int] | None = None):
        self.pair = pair
        self.range = range_


class Attempt:
    """A call of a procedure, and the view that its runs see.  What belongs to the call (its moment, the ids it was
    given, the ranges it has loaded) stays over all its runs; what belongs to a run is forgotten with it."""

    __slots__ = (
        "_function",
        "_ids",
        "_ids_given",
        "_ids_used",
        "_sources",
        "_volatile",
        "args",
        "done",
        "effects",
        "error",
        "is_relaxed",
        "miss",
        "now",
        "ranges",
        "reads",
        "result",
        "rounds",
        "volatile_reads",
        "writes",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        *,
        now: int,
        file_ids: Callable[[], FileId],
        volatile: Known,
        is_relaxed: bool = False,
        done: Done,
    ):
        self._function = function
        self.args = args
        self.now = now
        self._ids = file_ids
        self._volatile = volatile
        self.is_relaxed = is_relaxed
        self.done = done
        self.rounds = 0
        self.ranges: dict[RangeKey, Rows] = {}
        self._ids_given: list[FileId] = []

    def run(self, *sources: Known) -> None:
        """Run the procedure; a record is taken from the first source that has it."""
        self._sources = sources
        self._ids_used = 0
        self.reads: dict[Pair, Found] = {}
        self.volatile_reads: dict[Pair, Found] = {}
        self.writes: dict[Pair, Any] = {}
        self.effects: list[object] = []
        self.result: Any = None
        self.error: Exception | None = None
        self.miss: Miss | None = None
        try:
            self.result = self._function(self, *self.args)
        except Miss as miss:
            self.miss = miss
        except Exception as error:  # told to the caller, if what was read was true
            self.error = error
        if self.miss is not None or self.error is not None:
            self.writes = {}
            self.effects = []

    def is_unchanged(self, moment: Known) -> bool:
        """Whether everything the run read was so at one moment, and what is kept in memory is so now."""
        for pair, found in self.reads.items():
            known = moment.get(pair)
            if known is None or known.version != found.version:
                return False
        return all(self._volatile.get(pair, VACANT) is found for pair, found in self.volatile_reads.items())

    def seen(self) -> Iterator[tuple[Pair, Found]]:
        """What the run read in the store itself."""
        return ((pair, found) for pair, found in self.reads.items() if found.version != OVERLAID)

    # The view.

    def get(self, table: Table[K, R], key: K) -> R | None:
        pair = (table.number, key)
        if pair in self.writes:
            return cast("R | None", self.writes[pair])
        found = self.reads.get(pair)
        if found is None:
            found = self._find(table, pair)
        return cast("R | None", found.record)

    def get_all(self, table: Table[K, R], keys: Sequence[K]) -> list[R | None]:
        return [self.get(table, key) for key in keys]

    def _find(self, table: Table[K, R], pair: Pair) -> Found:
        for source in self._sources:
            found = source.get(pair)
            if found is not None:
                self.reads[pair] = found
                return found
        if table.is_volatile:
            found = self.volatile_reads[pair] = self._volatile.get(pair, VACANT)
            return found
        raise Miss(pair)

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
        """A range that a writing procedure scans must have a guard: a record that it reads too, and that every change
        within the range writes.  (A directory's state is the guard of its entries.)"""
        number = table.number
        above: dict[Any, Any] = {}
        for source in self._sources[:-1]:  # all but the cache, which holds no whole range
            for (other, key), found in source.items():
                if other == number and found.version == OVERLAID and start <= key < end:
                    above[key] = found.record
        for (other, key), record in self.writes.items():
            if other == number and start <= key < end:
                above[key] = record
        rows = self._volatile_rows(table) if table.is_volatile else self._rows(number, start, end, limit, above)
        inside = {key: record for key, record in rows if start <= key < end}
        inside.update(above)
        return sorted((key, record) for key, record in inside.items() if record is not None)[:limit]

    def _volatile_rows(self, table: Table[Any, Any]) -> list[tuple[Any, Any]]:
        rows = []
        for pair, found in self._volatile.items():
            if pair[0] == table.number:
                self.volatile_reads[pair] = found
                rows.append((pair[1], found.record))
        return rows

    def _rows(self, number: int, start: Any, end: Any, limit: int, above: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
        wanted = RangeKey(number, start, end)
        rows = self.ranges.get(wanted)
        limit += len(above)  # so many may be hidden by what lies above
        if rows is None or len(rows.found) >= rows.limit < limit:
            raise Miss(range_=(wanted, limit))
        for key, found in rows.found:
            if key in above:
                continue
            if self.reads.setdefault((number, key), found).version != found.version:
                raise Miss(range_=(wanted, limit))  # it changed since the range was loaded
        return [(key, found.record) for key, found in rows.found]

    def new_file_id(self) -> FileId:
        if self._ids_used == len(self._ids_given):
            self._ids_given.append(self._ids())
        self._ids_used += 1
        return self._ids_given[self._ids_used - 1]

    def after(self, effect: object) -> None:
        self.effects.append(effect)

    # What to load.

    def wanted(self) -> Iterator[Pair]:
        """The record that was missed, and what is read together with it: companions by key, and what the entries of a
        scanned range lead to."""
        if self.miss is None or self.miss.pair is None:
            return
        pair = self.miss.pair
        tables = all_tables()
        yield pair
        for companion in tables[pair[0]].companions:
            yield companion.number, pair[1]
        for (number, _, _), rows in self.ranges.items():
            leads_to = tables[number].leads_to
            if leads_to is None:
                continue
            table, key_of = leads_to
            for _, found in rows.found:
                key = key_of(found.record)
                yield table.number, key
                for companion in table.companions:
                    yield companion.number, key
