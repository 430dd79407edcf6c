"""Where a share says so, locks are more than advice: reads and writes that collide with somebody else's fail [LOCK-8].

NFSv3 tells no lock owner with a READ or WRITE, so that all locks of the client it comes from count as the caller's own.
"""

from collections.abc import Container
from typing import Protocol

from dittofs.locks.spans import Span
from dittofs.locks.values import Owner
from dittofs.model.errors import LockedByOther
from dittofs.model.ids import ClientId, FileId, FileRef, ShareName


class Asked(Protocol):
    """The part of the lock service that is asked."""

    def may_read(
        self, file: FileRef, span: Span, *, owner: Owner | None, clients: Container[ClientId] = ()
    ) -> bool: ...

    def may_write(
        self, file: FileRef, span: Span, *, owner: Owner | None, clients: Container[ClientId] = ()
    ) -> bool: ...


class LockGuard:
    """Stands before the content of a share with mandatory locks, for the callers of one client."""

    __slots__ = ("_clients", "_locks", "_share")

    def __init__(self, locks: Asked, share: ShareName, clients: Container[ClientId]):
        self._locks = locks
        self._share = share
        self._clients = clients

    def check_read(self, file: FileId, offset: int, count: int) -> None:
        """Raises LockedByOther."""
        span = Span(offset, min(offset + count, 2**64))
        if count and not self._locks.may_read(FileRef(self._share, file), span, owner=None, clients=self._clients):
            raise LockedByOther("the bytes to be read are locked by another client")

    def check_write(self, file: FileId, offset: int, count: int) -> None:
        """Raises LockedByOther."""
        span = Span(offset, min(offset + count, 2**64))
        if count and not self._locks.may_write(FileRef(self._share, file), span, owner=None, clients=self._clients):
            raise LockedByOther("the bytes to be written are locked by another client")

    def check_resize(self, file: FileId, *, old: int, new: int) -> None:
        """What is cut off or added counts as written.  Raises LockedByOther."""
        self.check_write(file, min(old, new), abs(new - old))
