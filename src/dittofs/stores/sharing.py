"""The seam of a metadata store that is asked over a network, and that several servers may use at once.

An ordered map from bytes to bytes, as `MetadataStore` is, in which each record has a version: a number that no other
state of that key ever has.  Nothing here waits in memory: what is committed is durable and everybody's.  Whoever read
something says with his commit which versions he saw, and it happens only if they are still the ones.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from dittofs.stores.api import StoreError

ABSENT = 0
"""The version of a key that has no record."""
UNKNOWN = -1
"""The version of a key that nobody has looked at: it differs from every one."""


class Versioned(NamedTuple):
    """A record as it was found; value None and version ABSENT if there is none."""

    key: bytes
    version: int
    value: bytes | None


class Range(NamedTuple):
    """At most `limit` records with start <= key < end."""

    start: bytes
    end: bytes
    limit: int


class Refreshed(NamedTuple):
    """What one moment looked like."""

    changed: Sequence[Versioned]
    """Those of the keys asked for whose version is another one."""
    ranges: Sequence[Sequence[Versioned]]


class Commit(NamedTuple):
    """One batch.  All keys are in order, so that two servers wait for each other in one direction only."""

    sequence: int
    """Of this process: one more than that of the last batch that was committed."""
    seen: Mapping[bytes, int]
    """What was read, and must still be so."""
    values: Mapping[bytes, bytes | None]
    """What is written; None removes the record."""
    is_relaxed: bool
    """True if nobody needs it to survive a crash of the database right after it."""


class StoreAway(StoreError):
    """The store cannot be reached now.  Nothing was changed; it is worth trying again."""


class InDoubt(StoreAway):
    """The store was lost in the middle of a commit: only `was_committed` knows whether it happened."""


class Overtaken(StoreError):
    """Another server was faster.  Nothing was changed: look again, and run again."""


class CommitSession(Protocol):
    """What takes a batch."""

    async def commit(self, batch: Commit) -> Sequence[Versioned]:
        """Commit, durably, if everything seen is still so.  Otherwise answers with what is not, and changes nothing.
        Raises StoreFull, StoreAway, InDoubt, Overtaken, StoreError."""


class LockedSession(CommitSession, Protocol):
    """A session in which nobody else changes the records that were asked for."""

    changed: Sequence[Versioned]
    """As they are now, where the version is another one."""


class SharedStore(CommitSession, Protocol):
    """Everything is a coroutine, and may be called while others wait; but there is only one commit at a time."""

    queries: int
    """Journeys to the store so far."""

    async def open(self) -> int:
        """Connect and make ready.  The answer is the epoch: a number that no other process on this store ever had, nor
        will have, below 2**31.  Versions made by the process are `epoch << 32 | sequence`.  Raises StoreError."""

    async def close(self) -> None: ...

    async def refresh(self, known: Mapping[bytes, int], ranges: Sequence[Range]) -> Refreshed:
        """Look at keys and ranges, all in one moment.  Raises StoreAway, StoreError."""

    def locked(self, known: Mapping[bytes, int]) -> AbstractAsyncContextManager[LockedSession]:
        """A session that keeps everybody else away from these keys until it ends.  Raises StoreAway, Overtaken."""

    async def was_committed(self, sequence: int) -> bool:
        """After InDoubt: whether that batch happened.  If it did not, it never will.  Raises StoreAway."""

    async def reserve_file_ids(self, count: int) -> int:
        """The first of `count` file ids that are now this process's, durably.  Raises StoreAway."""


def version_of(epoch: int, sequence: int) -> int:
    return epoch << 32 | sequence
