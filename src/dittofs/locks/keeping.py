"""Where locks are kept: the records in a share's metadata store, and the one class that reads and writes them.

Everything the service asks of a store is here, so that a store shared by several nodes needs another `LockRecords` and
no other service.  What one call of the table brought goes into one transaction, together with the file metadata of the
same turn of the event loop: one flush for all of it [KEEP-1].
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from dittofs.locks.recording import decoded, encoded
from dittofs.locks.records import NodeRecord
from dittofs.locks.values import Lock, Origin
from dittofs.model.errors import FileError, StoreFailure
from dittofs.model.ids import FileRef, ShareId, ShareName
from dittofs.model.later import Later
from dittofs.stores.api import StoreError
from dittofs.stores.tables import NamedTable, Table, View

T = TypeVar("T")

LockKey = tuple[bytes, int, int]
"""Share, file, lock: of fixed length each, so keys cannot collide, and one file's or one share's are neighbours."""

LOCKS: Table[LockKey, Lock] = Table("lock", b"l", "8sQQ", Lock, has_witnesses=False)
# A lock never changes: the table of locks, the cache of the store's driver and the batch all have the one value.
LOCKS.encode = encoded
LOCKS.decode = decoded

LAST = 2**64 - 1
LOCKS_AT_ONCE = 2**31
IDS_AHEAD = 65_536
NODE_IDS = 2**44
"""Lock ids of one node begin at a multiple of this, if others were there before it."""


NODES: NamedTable[NodeRecord] = NamedTable("node", b"n", NodeRecord)


NEWCOMERS = b""
"""The key of no node, whose record has the id of the newest node's first lock."""


class SplitBrain(StoreError):
    """Another server runs, or ran, under the identity of this one."""


class Hold(Protocol):
    """What an answer has to wait for: its batch becoming durable."""

    def when_settled(self, settled: Callable[[FileError | None], None], /) -> None: ...


class JoinedHold:
    """Several batches, of several stores, that one answer waits for."""

    __slots__ = ("_error", "_missing", "_waiting")

    def __init__(self, holds: Sequence[Hold]):
        self._missing = len(holds)
        self._error: FileError | None = None
        self._waiting: list[Callable[[FileError | None], None]] = []
        for hold in holds:
            hold.when_settled(self._one_settled)

    def when_settled(self, settled: Callable[[FileError | None], None], /) -> None:
        if self._missing:
            self._waiting.append(settled)
        else:
            settled(self._error)

    def _one_settled(self, error: FileError | None) -> None:
        self._missing -= 1
        self._error = self._error or error
        if not self._missing:
            waiting, self._waiting = self._waiting, []
            for settled in waiting:
                settled(self._error)


class Transactions(Protocol):
    """The driver of a metadata store, as the locks need it."""

    is_shared: bool
    """Other servers change the store meanwhile."""

    @property
    def hold(self) -> Hold | None: ...

    def run(self, function: Callable[..., T], /, *args: Any, is_relaxed: bool = False) -> T: ...

    async def perform(self, function: Callable[..., T], /, *args: Any, is_relaxed: bool = False) -> T: ...


PutAll = Callable[[Table[Any, Any], Mapping[Any, Any]], Hold | None]
PutOne = Callable[[Table[Any, Any], Any, Any], Hold | None]


class LateHold:
    """The hold of a batch that goes to a store across a network; it is on its way already."""

    __slots__ = ("_error", "_is_settled", "_waiting")

    def __init__(self, later: Later):
        self._is_settled = False
        self._error: FileError | None = None
        self._waiting: list[Callable[[FileError | None], None]] = []
        later.when_done(self._done)

    def when_settled(self, settled: Callable[[FileError | None], None], /) -> None:
        if self._is_settled:
            settled(self._error)
        else:
            self._waiting.append(settled)

    def _done(self, result: object, error: Exception | None) -> None:
        if error is not None:
            self._error = error if isinstance(error, FileError) else StoreFailure(str(error))
        self._is_settled = True
        waiting, self._waiting = self._waiting, []
        for settled in waiting:
            settled(self._error)


def send(transactions: Transactions, function: Callable[..., object], *args: Any) -> Hold | None:
    """Run it: at once, or, if the store has to be asked, on its way.  The answer is what an answer must wait for."""
    try:
        transactions.run(function, *args)
    except Later as later:
        return LateHold(later)
    return transactions.hold


class LockRecords:
    """The locks in one metadata store, of all shares that are kept there."""

    __slots__ = ("_put_all", "_put_one", "_reserved", "is_failing", "origin", "previous", "shares", "transactions")

    is_shared = False

    def __init__(self, transactions: Transactions, origin: Origin):
        self.transactions = transactions
        self.origin = origin
        self.shares: dict[ShareName, ShareId] = {}
        self.previous: NodeRecord | None = None
        """What the run before this one left here."""
        self.is_failing = False
        """The last batch with locks was lost."""
        self._reserved = 0
        self._put_all: PutAll | None = None if self.is_shared else getattr(transactions, "put_all", None)
        """The short way of a local store."""
        self._put_one: PutOne | None = None if self.is_shared else getattr(transactions, "put_one", None)

    async def begin(self) -> int:
        """Tell the store that this run has begun; answers with the first lock id to use.  Raises SplitBrain."""
        self.previous, first = await self.transactions.perform(_begin, self.origin)
        return first

    async def end(self) -> None:
        """Tell the store that this run was stopped: nothing may be written after this."""
        await self.transactions.perform(_end, self.origin)

    async def load_share(self, share: ShareName) -> list[Lock]:
        """Raises SplitBrain, StoreError."""
        locks = await self._load_share(self.shares[share])
        for lock in locks:
            if lock.origin.node == self.origin.node and lock.origin.epoch > self.origin.epoch:
                raise SplitBrain(_split_brain(lock.origin, self.origin))
        return self._own(locks)

    async def _load_share(self, share: bytes) -> list[Lock]:
        return await self.transactions.perform(load_locks, (share, 0, 0), (share, LAST, LAST))

    def load(self, file: FileRef) -> list[Lock]:
        key = self.shares[file.share]
        return self._own(self.transactions.run(load_locks, (key, file.file, 0), (key, file.file, LAST)))

    def _own(self, locks: Sequence[Lock]) -> list[Lock]:
        """A local store has one server at a time, so whoever else recorded a lock here was a predecessor."""
        node = self.origin.node
        return [
            lock if lock.origin.node == node else msgspec.structs.replace(lock, origin=Origin(node, 0))
            for lock in locks
        ]

    def write(self, changes: dict[LockKey, Lock | None]) -> Hold | None:
        """Keep new locks, and forget those that are None, in the batch of this turn."""
        node = None
        for lock in changes.values():
            if lock is not None and lock.id >= self._reserved:
                # In the same batch: no id is ever recorded that a later run could give out again.
                self._reserved = lock.id + IDS_AHEAD
                node = NodeRecord(self.origin.epoch, False, self._reserved)
        return self._send(changes, node)

    def write_one(self, key: LockKey, lock: Lock | None) -> Hold | None:
        """The same for one lock: what nearly every call brings."""
        if self._put_one is None or (lock is not None and lock.id >= self._reserved):
            return self.write({key: lock})
        return self._put_one(LOCKS, key, lock)

    def _send(self, changes: dict[LockKey, Lock | None], node: NodeRecord | None) -> Hold | None:
        if node is None and self._put_all is not None:
            return self._put_all(LOCKS, changes)
        return send(self.transactions, write_locks, changes, self.origin, node)

    def lost(self, files: Iterable[FileRef]) -> None:
        """A batch was lost, perhaps with the reservation of ids in it."""
        self._reserved = 0


class Begun(NamedTuple):
    previous: NodeRecord | None
    first_lock_id: int


def _key(origin: Origin) -> bytes:
    return origin.node.encode()


def _begin(view: View, origin: Origin) -> Begun:
    key = _key(origin)
    found = view.get(NODES, key)
    if found is not None and (found.epoch > origin.epoch or (found.epoch == origin.epoch and not found.is_clean)):
        raise SplitBrain(_split_brain(Origin(origin.node, found.epoch), origin))
    if found is not None:
        first = found.lock_ids_end
    else:
        ends = [record.lock_ids_end for _, record in view.scan(NODES, b"", b"\xff" * 64, LOCKS_AT_ONCE)]
        first = max(-(-end // NODE_IDS) * NODE_IDS for end in ends) if ends else 1
        # Read and written by every newcomer: of two that come at once, in a shared store, one has to look again.
        view.get(NODES, NEWCOMERS)
        view.put(NODES, NEWCOMERS, NodeRecord(0, True, first + 1))
    view.put(NODES, key, NodeRecord(origin.epoch, False, first))
    return Begun(found, first)


def _end(view: View, origin: Origin) -> None:
    found = view.get(NODES, _key(origin))
    assert found is not None, "a run that ends has begun"
    if found.epoch == origin.epoch:  # else somebody else has this node's name by now, and will find out
        view.put(NODES, _key(origin), NodeRecord(origin.epoch, True, found.lock_ids_end))


def load_locks(view: View, start: LockKey, end: LockKey) -> list[Lock]:
    return [lock for _, lock in view.scan(LOCKS, start, end, LOCKS_AT_ONCE)]


def write_locks(view: View, changes: dict[LockKey, Lock | None], origin: Origin, node: NodeRecord | None) -> None:
    for key, lock in changes.items():
        if lock is None:
            view.delete(LOCKS, key)
        else:
            view.put(LOCKS, key, lock)
    if node is not None:
        view.put(NODES, _key(origin), node)


def _split_brain(found: Origin, own: Origin) -> str:
    return (
        f"the store was last used in epoch {found.epoch} of node {own.node}, and this server is in epoch {own.epoch}: "
        "another server runs with a copy of this data directory, or the directory was put back from an old copy; "
        "stop the other one, or remove the file 'node' from this server's data directory to make it a node of its own"
    )
