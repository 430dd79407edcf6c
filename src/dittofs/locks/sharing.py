"""The locks in a store that several nodes use: what another node holds counts, and two that decide at once find out.

Each file with locks has a mark, which every change of its locks replaces.  A node that decides knows the mark of what
it decided on, and its decision is recorded only if the mark is still the same; otherwise it takes in what the others
did, and decides again.  A change that only takes locks away is always true: it is recorded whatever the mark, but if
that was not the known one, the mark that it leaves is one that nobody knows, so that this node looks again as well.
"""

from collections.abc import Iterable
from typing import NamedTuple

from dittofs.locks.keeping import (
    LAST,
    LOCKS_AT_ONCE,
    Hold,
    LockKey,
    LockRecords,
    Transactions,
    load_locks,
    send,
    write_locks,
)
from dittofs.locks.records import Mark, NodeRecord
from dittofs.locks.values import Lock, Origin
from dittofs.model.errors import TryLater
from dittofs.model.ids import FileRef
from dittofs.stores.tables import Table, View

FileKey = tuple[bytes, int]
"""Share and file."""

MARKS_KEPT = 65_536


MARKS: Table[FileKey, Mark] = Table("lock-mark", b"m", "8sQ", Mark)


class Outdated(TryLater):
    """Another node has changed the locks of this file since they were last looked at."""


class Known(NamedTuple):
    """What a node last saw of a file's locks; None as a mark: there never were any."""

    mark: Mark | None


class SharedLockRecords(LockRecords):
    """The locks in one such store."""

    __slots__ = ("_known", "_number")

    is_shared = True

    def __init__(self, transactions: Transactions, origin: Origin):
        super().__init__(transactions, origin)
        self._known: dict[FileKey, Known] = {}
        self._number = 0

    async def _load_share(self, share: bytes) -> list[Lock]:
        marks, locks = await self.transactions.perform(_load_all, share)
        self._known.update({key: Known(mark) for key, mark in marks[:MARKS_KEPT]})
        return locks

    async def catch_up(self, file: FileRef) -> list[Lock] | None:
        """The locks of a file; None if they are as this node knows them."""
        key = (self.shares[file.share], file.file)
        known = self._known.get(key)
        found = await self.transactions.perform(_changed, key, known)
        if found is None or self._known.get(key) is not known:
            return None  # a decision of ours is on its way; its commit will tell whether it was up to date
        mark, locks = found
        while len(self._known) >= MARKS_KEPT:
            del self._known[next(iter(self._known))]
        self._known[key] = Known(mark)
        return locks

    def lost(self, files: Iterable[FileRef]) -> None:
        super().lost(files)
        for file in files:
            share = self.shares.get(file.share)
            if share is not None:
                self._known.pop((share, file.file), None)

    def _own(self, locks: list[Lock]) -> list[Lock]:  # type: ignore[override]
        """A lock of another node is that node's to keep, and to give back."""
        return locks

    def _send(self, changes: dict[LockKey, Lock | None], node: NodeRecord | None) -> Hold | None:
        decided: set[FileKey] = set()
        expected: dict[FileKey, Known | None] = {}
        marks: dict[FileKey, Mark] = {}
        for (share, file, _), lock in changes.items():
            key = (share, file)
            if lock is not None:
                decided.add(key)
            if key not in marks:
                self._number += 1
                expected[key] = self._known.get(key)
                marks[key] = Mark(self.origin.node, self.origin.epoch, self._number)
        # What stands on this decision is checked against it, also before it is known whether it was recorded.
        self._known.update({key: Known(mark) for key, mark in marks.items() if key in self._known})
        return send(self.transactions, _write_marked, changes, self.origin, node, decided, expected, marks)


def _load_all(view: View, share: bytes) -> tuple[list[tuple[FileKey, Mark]], list[Lock]]:
    """The marks first: a lock that comes between the two is one of a file whose mark is not known, or not any more."""
    marks = list(view.scan(MARKS, (share, 0), (share, LAST), LOCKS_AT_ONCE))
    return marks, load_locks(view, (share, 0, 0), (share, LAST, LAST))


def _changed(view: View, key: FileKey, known: Known | None) -> tuple[Mark | None, list[Lock]] | None:
    mark = view.get(MARKS, key)
    if known is not None and known.mark == mark:
        return None
    share, file = key
    return mark, load_locks(view, (share, file, 0), (share, file, LAST))


def _write_marked(
    view: View,
    changes: dict[LockKey, Lock | None],
    origin: Origin,
    node: NodeRecord | None,
    decided: set[FileKey],
    expected: dict[FileKey, Known | None],
    marks: dict[FileKey, Mark],
) -> None:
    """`decided` are the files in which something is granted."""
    for key, mark in marks.items():
        known = expected[key]
        if known is not None and known.mark == view.get(MARKS, key):
            view.put(MARKS, key, mark)
        elif key in decided:
            raise Outdated("another node has changed the locks of the file")
        else:
            view.put(MARKS, key, Mark(mark.node, mark.epoch, -mark.number))
    write_locks(view, changes, origin, node)
