"""The two seams of a store: records with transactions, and content.

A metadata store is an ordered map from bytes to bytes that takes batches.  A content store keeps one run
of bytes per file.  Whoever writes these few methods serves a storage of his own as a network drive
[STORE-4]; `dittofs.testing` has the suites that say whether it was done right [STORE-2].
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import ClassVar, NamedTuple, Protocol

from dittofs.model.ids import ContentId, ShareId
from dittofs.model.unread import Unread

Buffer = bytes | bytearray | memoryview

Change = tuple[bytes, bytes | None]
"""A key and its new value; None removes the key."""

KEY_BYTES_MAX = 511
VALUE_BYTES_MAX = 16 * 1024 * 1024

_key_of = itemgetter(0)
_value_of = itemgetter(1)


class MetadataStore(Protocol):
    """An ordered map.  Everything but `flush` is called from one thread, and must not wait for long.

    `get` and `scan` see every applied batch, durable or not.  Keys have 1 to 511 bytes, values at most 16 MiB.
    A class that names this one as its base needs to write only what has no default here.
    """

    is_volatile: ClassVar[bool]
    """True if nothing survives a restart: then `flush` is never called."""

    def open(self) -> None:
        """Make ready; recover what an earlier process left.  Raises `StoreError` with a clear message."""

    def close(self) -> None:
        """Flush everything and let go of all resources."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""

    def scan(self, start: bytes, end: bytes, limit: int) -> Sequence[tuple[bytes, bytes]]:
        """At most `limit` records with start <= key < end, in the order of their keys."""

    def apply(self, changes: Sequence[Change]) -> None:
        """Make one batch visible, whole or not at all.  Raises `StoreFull` or `StoreError`: nothing changed."""

    def flush(self) -> None:
        """Make durable every batch applied before this call.  May block: it runs in a thread of its own, while
        the other methods go on being called, unless `can_flush_at_once`.  Raises `StoreFull` or `StoreError`: then
        `revert` is called next."""

    def revert(self) -> None:
        """After a failed flush: drop every batch that is not durable.  Raises `StoreError` if the store cannot go on;
        then every further `apply` fails, until the store is opened anew."""

    @property
    def is_congested(self) -> bool:
        """True while applied batches pile up: whoever does not wait for `flush` anyway should wait for it now."""
        return False

    @property
    def can_flush_at_once(self) -> bool:
        """True if a `flush` now would take no longer than one small write to the medium: then it may be called in the
        thread of the other methods, if such flushes have been quick."""
        return False


class Usage(NamedTuple):
    """What a content store has room for, in bytes."""

    total: int
    free: int
    available: int
    largest_file: int = 2**63 - 1
    """The most that one file can hold, however much room there is."""


class ContentStore(Protocol):
    """One run of bytes per file, made by the first write.

    Methods are coroutines so that a store may wait; one that need not wait returns at once and is not
    charged for the possibility.  What lies between written ranges reads as zeros.  A class that names this one as its
    base needs to write only what has no default here.
    """

    is_volatile: ClassVar[bool]

    def open(self) -> None: ...

    def close(self) -> None: ...

    async def read(self, content: ContentId, offset: int, count: int) -> Buffer:
        """Up to `count` bytes; fewer only where the content ends.  Content that was never written is empty."""

    def read_now(self, content: ContentId, offset: int, count: int) -> Buffer | None:
        """What `read` would answer, if it is at hand; None if somebody has to wait for it.  A store that always has to
        wait need not write this one."""
        return None

    def unread(self, content: ContentId, offset: int, count: int) -> Unread | None:
        """The same bytes, for a socket to take where they are, if that needs no waiting and exactly so many are there.
        Should they be written to before they arrive, the client may get the new ones.  None if the store cannot, as a
        store that does not write this one."""
        return None

    async def write(self, content: ContentId, offset: int, data: Buffer) -> None:
        """Visible to the next read; durable after the next `sync`.  `data` is not kept after the return."""

    def write_now(self, content: ContentId, offset: int, data: Buffer) -> bool:
        """As `write`, if that can be done without waiting; False if not, and nothing was done.  A store that always
        has to wait need not write this one."""
        return False

    async def truncate(self, content: ContentId, size: int) -> None:
        """Cut what lies behind `size` (it never comes back, also not when the file grows again).  Cuts only: a size at
        or behind the end changes nothing, so content may end before the file does."""

    async def sync(self, content: ContentId) -> None:
        """What was written and truncated before this call is durable when it returns."""

    async def remove(self, content: ContentId) -> None:
        """Forget the content.  Removing what is not there succeeds."""

    async def sync_removals(self) -> None:
        """What was removed before this call never comes back after it.  Asked once for many removals; a store whose
        `remove` is durable anyway need not write this one."""
        return

    async def allocated(self, content: ContentId) -> int:
        """Bytes really used on the medium: holes do not count."""

    async def data_from(self, content: ContentId, offset: int) -> int | None:
        """Where, from this offset on, the first bytes are that may be other than zeros; None if there are none.  A
        store that does not know need not write this one: then holes are read like anything else."""
        return offset if await self.read(content, offset, 1) else None

    def usage(self) -> Usage:
        """Room in all; asked often, so it must be quick."""

    def contents(self, share: ShareId) -> Sequence[ContentId]:
        """Everything kept for a share: for `dittofs check`, never on a request's path."""


class StoreError(Exception):
    """A store cannot do what it was asked; the message is for the operator."""


class StoreFull(StoreError):
    """No room: trying again is useless until something is removed."""


def check_keys(changes: Sequence[Change]) -> None:
    """For the head of a store's `apply`: refuse what no store keeps, before anything is changed."""
    if not changes:
        return
    # Three loops in C instead of one here: this is on the way of every change.
    lengths = list(map(len, map(_key_of, changes)))
    longest = max(map(len, filter(None, map(_value_of, changes))), default=0)
    if min(lengths) > 0 and max(lengths) <= KEY_BYTES_MAX and longest <= VALUE_BYTES_MAX:
        return
    for key, value in changes:
        if not 0 < len(key) <= KEY_BYTES_MAX:
            raise StoreError(f"a key of {len(key)} bytes; 1 to {KEY_BYTES_MAX} are allowed")
        if value is not None and len(value) > VALUE_BYTES_MAX:
            raise StoreError(f"a value of {len(value)} bytes; at most {VALUE_BYTES_MAX} are allowed")
