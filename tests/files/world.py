"""A metadata store and a content store small enough to see through: it is known exactly what is durable, so that a
test can take the power away at any moment; and every wait is a chance for others to run."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from dittofs.files import checking
from dittofs.files.cookies import place_function
from dittofs.files.inodes import load, make_root
from dittofs.files.records import SHARES, ShareRecord
from dittofs.files.tree import Tree
from dittofs.files.values import File
from dittofs.files.volume import Volume
from dittofs.model.identity import Identity
from dittofs.model.ids import ContentId, FileId, ShareId
from dittofs.stores.api import Buffer, ContentStore, StoreError, StoreFull, Usage
from dittofs.stores.tables import Table, all_tables

ROOT = Identity(0, 0)
ALICE = Identity(1000, 1000, frozenset({2000}))
BOB = Identity(1001, 1001, frozenset({2000}))
CAROL = Identity(1002, 1002)

SHARE = ShareId(b"\x01\x02\x03\x04\x05\x06\x07\x08")
HANDLE_KEY = b"k" * 32

Key = tuple[int, Any]
PlaceOf = Callable[[bytes], int]


def weak_place_of(name: bytes) -> int:
    """Two bits of a name: most names collide."""
    return 3 + (sum(name) & 3)


class MemoryView:
    """A view over plain dicts."""

    def __init__(self, transactions: "MemoryTransactions"):
        self._transactions = transactions
        self.writes: dict[Key, Any] = {}
        self.effects: list[object] = []
        self.now = transactions.now

    def get(self, table: Table[Any, Any], key: Any) -> Any:
        written = (table.number, key)
        if written in self.writes:
            return self.writes[written]
        return self._transactions.rows[table.number].get(key)

    def get_all(self, table: Table[Any, Any], keys: Sequence[Any]) -> list[Any]:
        return [self.get(table, key) for key in keys]

    def put(self, table: Table[Any, Any], key: Any, record: Any) -> None:
        assert isinstance(record, table.record)
        assert table.decode(table.encode(record)) == record, "a record survives its encoding"
        self.writes[(table.number, key)] = record

    def delete(self, table: Table[Any, Any], key: Any) -> None:
        assert self.get(table, key) is not None, "nothing is deleted that is not there"
        self.writes[(table.number, key)] = None

    def merge(self, table: Table[Any, Any], key: Any, change: Callable[[Any, Any], Any], argument: Any) -> Any:
        record = self.get(table, key)
        assert record is not None, "only what is there is merged into"
        changed = change(record, argument)
        self.put(table, key, changed)
        return changed

    def scan(self, table: Table[Any, Any], start: Any, end: Any, limit: int) -> Sequence[tuple[Any, Any]]:
        rows = dict(self._transactions.rows[table.number])
        for (number, key), record in self.writes.items():
            if number == table.number:
                if record is None:
                    rows.pop(key, None)
                else:
                    rows[key] = record
        return sorted((key, rows[key]) for key in rows if start <= key < end)[:limit]

    def new_file_id(self) -> FileId:
        self._transactions.last_file_id += 1
        return FileId(self._transactions.last_file_id)

    def after(self, effect: object) -> None:
        self.effects.append(effect)


class MemoryTransactions:
    """Runs procedures over dicts.  `lose_power` takes back everything that was not made durable."""

    hold: Any = None
    is_shared = False

    def __init__(self) -> None:
        self.rows: list[dict[Any, Any]] = [{} for _ in all_tables()]
        self._durable: list[dict[Any, Any]] = [{} for _ in all_tables()]
        self._undurable: list[Key] = []
        self.now = 1_700_000_000_000_000_000
        self.last_file_id = 0
        self.effects: list[object] = []
        self.fail_next: Exception | None = None
        self.flushes = 0

    def run(self, function: Callable[..., Any], /, *args: Any, is_relaxed: bool = False) -> Any:
        view = MemoryView(self)
        result = function(view, *args)
        tables = all_tables()
        for (number, key), record in view.writes.items():
            if record is None:
                self.rows[number].pop(key, None)
            else:
                self.rows[number][key] = record
            if not tables[number].is_volatile:
                self._undurable.append((number, key))
        self.effects += view.effects
        return result

    async def perform(self, function: Callable[..., Any], /, *args: Any, is_relaxed: bool = False) -> Any:
        result = self.run(function, *args)
        if not is_relaxed and self._undurable:
            await asyncio.sleep(0)
            if self.fail_next is not None:
                error, self.fail_next = self.fail_next, None
                self._forget_undurable()
                raise error
            self.flush()
        return result

    def flush(self) -> None:
        self.flushes += 1
        for number, key in self._undurable:
            if key in self.rows[number]:
                self._durable[number][key] = self.rows[number][key]
            else:
                self._durable[number].pop(key, None)
        self._undurable = []

    def _forget_undurable(self) -> None:
        for table in all_tables():
            if not table.is_volatile:
                self.rows[table.number] = dict(self._durable[table.number])
        self._undurable = []

    def lose_power(self) -> None:
        self._forget_undurable()
        for table in all_tables():
            if table.is_volatile:
                self.rows[table.number] = {}


class FragileContent(ContentStore):
    """Content of which only what was synced survives; with `cache_survives`, as after a mere kill, all of it."""

    is_volatile: ClassVar[bool] = False

    def __init__(self) -> None:
        self.current: dict[ContentId, bytes] = {}
        self.durable: dict[ContentId, bytes] = {}
        self.removed: set[ContentId] = set()
        """What a loss of power would bring back."""
        self.is_full = False
        self.is_quick = False
        """Whether reading and writing need not wait."""
        self.fails_to: set[str] = set()
        self.paused: dict[str, asyncio.Event] = {}
        self.reached: dict[str, asyncio.Event] = {}
        self.syncs = 0

    async def _step(self, what: str) -> None:
        """Others run now; or, if a test paused this, until it lets it go on."""
        if what in self.paused:
            self.reached[what].set()
            await self.paused[what].wait()
        await asyncio.sleep(0)
        if what in self.fails_to:
            raise StoreError(f"told to fail to {what}")

    def pause(self, what: str) -> None:
        self.paused[what] = asyncio.Event()
        self.reached[what] = asyncio.Event()

    def go_on(self, what: str) -> None:
        self.paused.pop(what).set()

    def open(self) -> None: ...

    def close(self) -> None: ...

    async def read(self, content: ContentId, offset: int, count: int) -> Buffer:
        await self._step("read")
        return self.current.get(content, b"")[offset : offset + count]

    def read_now(self, content: ContentId, offset: int, count: int) -> Buffer | None:
        return self.current.get(content, b"")[offset : offset + count] if self.is_quick else None

    async def write(self, content: ContentId, offset: int, data: Buffer) -> None:
        await self._step("write")
        self._write_or_fail(content, offset, data)

    def write_now(self, content: ContentId, offset: int, data: Buffer) -> bool:
        if self.is_quick:
            self._write_or_fail(content, offset, data)
        return self.is_quick

    def _write_or_fail(self, content: ContentId, offset: int, data: Buffer) -> None:
        if self.is_full:
            # The worst that a store may do: half of it is there.
            self._write(content, offset, bytes(data)[: (len(data) + 1) // 2])
            raise StoreFull("full")
        self._write(content, offset, bytes(data))

    def _write(self, content: ContentId, offset: int, data: bytes) -> None:
        old = self.current.get(content, b"")
        self.current[content] = old[:offset].ljust(offset, b"\0") + data + old[offset + len(data) :]

    async def truncate(self, content: ContentId, size: int) -> None:
        await self._step("truncate")
        if content in self.current:
            self.current[content] = self.current[content][:size]

    async def sync(self, content: ContentId) -> None:
        seen = self.current.get(content)
        await self._step("sync")
        self.syncs += 1
        if seen is not None:
            self.durable[content] = seen

    async def remove(self, content: ContentId) -> None:
        await self._step("remove")
        self.current.pop(content, None)
        self.removed.add(content)

    async def sync_removals(self) -> None:
        removed, self.removed = self.removed, set()
        await self._step("sync_removals")
        for content in removed:
            self.durable.pop(content, None)

    async def allocated(self, content: ContentId) -> int:
        return len(self.current.get(content, b""))

    def usage(self) -> Usage:
        return Usage(10**9, 10**8, 10**7)

    def contents(self, share: ShareId) -> Sequence[ContentId]:
        return [content for content in self.current if content.share == share]

    def lose_power(self, *, cache_survives: bool) -> None:
        if not cache_survives:
            self.current = dict(self.durable)
        self.durable = dict(self.current)
        self.removed = set()


class World:
    """One share, empty, with a root that everybody may write in."""

    def __init__(self, place_of: PlaceOf | None = None, *, is_relaxed: bool = False, mode: int = 0o777):
        self.place_of = place_of or place_function(SHARE)
        self.transactions = MemoryTransactions()
        self.content = FragileContent()
        self._is_relaxed = is_relaxed
        self.record: ShareRecord = self.transactions.run(_make_share, mode)
        self.transactions.flush()
        self.volume = self._open()

    def _open(self) -> Volume:
        tree = Tree(SHARE, self.record.root, self.place_of)
        return Volume(
            self.record,
            transactions=self.transactions,
            content=self.content,
            is_relaxed=self._is_relaxed,
            tree=tree,
        )

    @property
    def tree(self) -> Tree:
        return self.volume.tree

    @property
    def root(self) -> FileId:
        return self.record.root

    def load(self, file: FileId) -> File:
        return self.transactions.run(load, file)  # type: ignore[no-any-return]

    def call(self, function: Callable[..., Any], identity: Identity, *args: Any, **named: Any) -> Any:
        """Run a rule.  Ids among the arguments are loaded first, as a protocol does with handles."""
        self.transactions.now += 1_000

        def loaded(view: Any) -> Any:
            values = [load(view, value.id) if isinstance(value, At) else value for value in args]
            return function(view, self.tree, identity, *values, **named)

        return self.transactions.run(loaded)

    def problems(self, contents: Mapping[ShareId, ContentStore] | None = None) -> list[str]:
        report: checking.Report = self.transactions.run(checking.check, contents or {}, lambda share: self.place_of)
        return report.problems

    def restart(self) -> None:
        """A new process: nothing is remembered."""
        self.volume = self._open()

    def lose_power(self, *, cache_survives: bool = False) -> None:
        self.transactions.lose_power()
        self.content.lose_power(cache_survives=cache_survives)
        self.restart()


class At:
    """A file by its id, loaded when the rule runs."""

    def __init__(self, id_: FileId):
        self.id = id_


def _make_share(view: Any, mode: int) -> ShareRecord:
    record = ShareRecord(SHARE, make_root(view, uid=0, gid=0, mode=mode), HANDLE_KEY, 7)
    view.put(SHARES, b"/export", record)
    return record
