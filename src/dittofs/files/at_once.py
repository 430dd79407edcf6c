"""Reading and writing where nothing has to be waited for: as `io`, without a coroutine.

Each function says None if somebody has to wait after all, and has then changed nothing that counts; `io` is asked
next, which also deals with whatever is in the way.
"""

from collections.abc import Callable

from dittofs.files import io
from dittofs.files.io import ReadResult, Stability, WriteResult
from dittofs.files.values import File
from dittofs.files.volume import Volume, Witness
from dittofs.locks.mandatory import LockGuard
from dittofs.model.errors import FileError
from dittofs.model.identity import Identity
from dittofs.model.ids import FileId
from dittofs.model.unread import Unread
from dittofs.stores.api import Buffer, StoreError
from dittofs.stores.tables import View

UNREAD_BYTES = 65_536
"""So many are better not read here, but left to the socket to take; no datagram is as large."""


class OpenedFile:
    """A file that somebody may read, for as long as its records are the same."""

    __slots__ = ("_content", "_guard", "_store", "file", "size")

    def __init__(self, volume: Volume, file: File, guard: LockGuard | None):
        self.file = file
        self.size = file.inode.size
        self._store = volume.content
        self._content = volume.content_of(file.id)
        self._guard = guard

    def read(self, offset: int, count: int) -> Buffer | Unread | None:
        """RFC 1813 3.3.6, of bytes that are at hand."""
        if self._guard is not None:
            self._guard.check_read(self.file.id, offset, count)
        left = self.size - offset
        if count > left:
            count = left
        if count <= 0:
            return b""
        try:
            if count >= UNREAD_BYTES:
                unread = self._store.unread(self._content, offset, count)
                if unread is not None:
                    return unread
            data = self._store.read_now(self._content, offset, count)
        except StoreError:
            return None
        return None if data is None or len(data) < count else data


def read(
    volume: Volume, identity: Identity, file: FileId, offset: int, count: int, guard: LockGuard | None
) -> ReadResult | None:
    """RFC 1813 3.3.6, of bytes that are at hand, for a file whose attributes are durable."""
    found = _look(volume, io.open_for_read, identity, file)
    if found is None:
        return None
    opened = OpenedFile(volume, found, guard)
    data = opened.read(offset, count)
    return None if data is None else ReadResult(found, data, offset + len(data) >= opened.size)


def open_to_read(
    volume: Volume, identity: Identity, file: FileId, guard: LockGuard | None
) -> tuple[OpenedFile, Witness] | None:
    """For whoever reads one piece after the other: what to read from as long as the witness sees no change."""
    opened, witness = volume.transactions.look(io.open_for_read, identity, file, is_relaxed=volume.is_relaxed)
    return None if witness is None else (OpenedFile(volume, opened, guard), witness)


def write(
    volume: Volume,
    identity: Identity,
    file: FileId,
    offset: int,
    data: Buffer,
    stability: Stability,
    guard: LockGuard | None,
) -> WriteResult | None:
    """RFC 1813 3.3.7, where the write need not be durable."""
    is_stable = stability is not Stability.UNSTABLE
    if is_stable and not volume.is_relaxed:
        return None
    if volume.snapshot is not None or len(volume.dirty) >= io.MAX_SHADOWS or volume.gates.is_closed(file):
        return None
    count = len(data)
    end = offset + count
    io.check_size(volume, end)
    opened = _look(volume, io.open_for_write, identity, file)
    if opened is None or (offset > opened.inode.size and file not in volume.tails):
        return None
    if guard is not None:
        guard.check_write(file, offset, count)
    if not count:
        return WriteResult(opened, opened, stability)
    try:
        if not volume.content.write_now(volume.content_of(file), offset, data):
            return None
    except StoreError:
        return None
    # Nobody else came between, so the file is still what was opened.
    after = volume.transactions.run(io.note_written, opened, end, count, is_relaxed=volume.is_relaxed)
    volume.dirty[file] = None
    return WriteResult(opened, after, Stability.FILE_SYNC if is_stable else Stability.UNSTABLE)


def _look(
    volume: Volume, function: Callable[[View, Identity, FileId], File], identity: Identity, file: FileId
) -> File | None:
    """Run a procedure that only looks; None if its answer, or its error, would have to wait."""
    transactions = volume.transactions
    if transactions.is_shared:
        return None
    try:
        opened = transactions.run(function, identity, file, is_relaxed=volume.is_relaxed)
    except FileError:
        if transactions.hold is None:
            raise
        return None
    return opened if transactions.hold is None else None
