"""The values that go into the lock table and that it keeps: owners, locks, requests.

They know no protocol.  A `Lock` never changes: whatever splits, merges or converts one makes new locks with
new ids, so that the table, the store and a log line can share the same object.
"""

from enum import Enum, IntFlag
from typing import NamedTuple

import msgspec

from dittofs.locks.spans import Span
from dittofs.model.ids import ClientId, FileRef, LockId


class Mode(Enum):
    """What kind of lock it is."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"
    RESERVATION = "reservation"


class Access(IntFlag):
    """What a reservation is for, and what it denies to others."""

    NONE = 0
    READ = 1
    WRITE = 2
    ALL = 3


class Owner(msgspec.Struct, frozen=True, gc=False):
    """Who holds or wants a lock.

    Two owners are the same if `id` and `client` are: cloned machines of one name send equal ids [LOCK-2].  Both
    are opaque.  `svid` and `oh` are only carried, for the denial that must report them.
    """

    id: str
    client: ClientId
    svid: int = 0
    oh: bytes = b""


class Origin(NamedTuple):
    """Which run of which server recorded a lock."""

    node: str
    epoch: int


class Reservation(NamedTuple):
    """The share mode of a RESERVATION."""

    access: Access
    deny: Access


class Lock(msgspec.Struct, frozen=True, gc=False):
    """A lock as it is held and recorded [LOCK-1].

    Plain slots without a cycle collector's header: there may be 100,000 of them.
    """

    id: LockId
    file: FileRef
    owner: Owner
    start: int
    end: int
    mode: Mode
    acquired_at: float
    origin: Origin
    state: int = 0
    """The NSM state of the client when it took the lock; 0: unknown."""
    reservation: Reservation | None = None
    was_blocking: bool = False
    is_reclaim: bool = False
    is_offered: bool = False
    """A grant that its owner has not confirmed yet: it lies over what he holds [LOCK-3]."""

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


class Acquire(msgspec.Struct, frozen=True):
    """A request for a range."""

    file: FileRef
    owner: Owner
    span: Span
    mode: Mode
    wait: bool = False
    reclaim: bool = False
    state: int = 0


class Reserve(msgspec.Struct, frozen=True):
    """A request for a share reservation of the whole file."""

    file: FileRef
    owner: Owner
    access: Access
    deny: Access
    reclaim: bool = False
    state: int = 0
