"""Reading and writing: where a file's metadata and its content are brought together.

What is written becomes visible at once, and durable when somebody asks for it: until then the changed inode is a
volatile shadow over the durable one, and `settle` makes first the content durable and then the inode, so that durable
metadata never points at content that is not there [STORE-3].

Behind a file's end its content may hold bytes: of writes that a crash cut off from their metadata, or that failed half
way.  They must not appear when the file grows, so the content is cut before a file grows over a gap, unless its tail is
known to be clean (`Volume.tails`); and the new size of a file that shrinks is recorded first, so that recovery repeats
the cut.
"""

from enum import IntEnum
from typing import NamedTuple

from msgspec.structs import replace

from dittofs.files import access, attributes
from dittofs.files.inodes import load
from dittofs.files.records import INODES, TRUNCATIONS, UNSTABLE, FileType, Inode, Truncation
from dittofs.files.values import Change, File, SetAttributes
from dittofs.files.volume import Volume
from dittofs.locks.mandatory import LockGuard
from dittofs.model.errors import (
    AccessDenied,
    FileError,
    FileTooBig,
    InvalidArgument,
    IsADirectory,
    NoSpace,
    StoreFailure,
)
from dittofs.model.identity import Identity
from dittofs.model.ids import FileId, ShareId
from dittofs.model.unread import Unread
from dittofs.stores.api import Buffer, StoreError, StoreFull
from dittofs.stores.tables import View

MAX_SHADOWS = 8_192
"""Files of a volume with writes that are not durable; who makes one more settles the oldest first."""


class Stability(IntEnum):
    """RFC 1813's stable_how: what must be durable when a WRITE is answered."""

    UNSTABLE = 0
    DATA_SYNC = 1
    FILE_SYNC = 2


class ReadResult(NamedTuple):
    file: File
    data: Buffer | Unread
    at_end: bool


class WriteResult(NamedTuple):
    before: File
    after: File
    stability: Stability


def failure_of(error: StoreError) -> FileError:
    """What a client hears of a store's trouble."""
    return NoSpace(str(error)) if isinstance(error, StoreFull) else StoreFailure(str(error))


# Reading.


async def read(
    volume: Volume, identity: Identity, file: FileId, offset: int, count: int, *, guard: LockGuard | None = None
) -> ReadResult:
    """RFC 1813 3.3.6.  Bytes that were never written are zeros."""
    perform = volume.transactions.perform
    opened = await perform(open_for_read, identity, file, is_relaxed=volume.is_relaxed)
    if guard is not None:
        guard.check_read(file, offset, count)
    wanted = min(count, opened.inode.size - offset)
    if wanted <= 0:
        return ReadResult(opened, b"", offset >= opened.inode.size)
    try:
        data = await volume.content.read(volume.content_of(file), offset, wanted)
    except StoreError as error:
        raise failure_of(error) from error
    if len(data) < wanted:
        # A hole at the end, or the file was cut meanwhile: its size now tells which.
        opened = await perform(open_for_read, identity, file, is_relaxed=volume.is_relaxed)
        wanted = max(0, min(wanted, opened.inode.size - offset))
        data = bytes(data[:wanted]).ljust(wanted, b"\0")
    return ReadResult(opened, data, offset + len(data) >= opened.inode.size)


def open_for_read(view: View, identity: Identity, file: FileId) -> File:
    opened = load(view, file)
    _check_has_content(opened.inode)
    if not access.may_read_content(identity, opened.inode):
        raise AccessDenied("no permission to read the file")
    return opened


def _check_has_content(inode: Inode) -> None:
    if inode.type is FileType.DIRECTORY:
        raise IsADirectory("a directory has no content")
    if inode.type is not FileType.REGULAR:
        raise InvalidArgument("only a regular file has content")


def check_size(volume: Volume, size: int) -> None:
    if size > volume.max_file_size:
        raise FileTooBig(f"up to byte {size}: a file has at most {volume.max_file_size}")


# Writing.


async def write(
    volume: Volume,
    identity: Identity,
    file: FileId,
    offset: int,
    data: Buffer,
    stability: Stability,
    *,
    guard: LockGuard | None = None,
) -> WriteResult:
    """RFC 1813 3.3.7.  DATA_SYNC is granted as FILE_SYNC: one flush makes both durable."""
    end = offset + len(data)
    check_size(volume, end)
    opened = await _enter_for_write(volume, identity, file, offset)
    if guard is not None:
        try:
            guard.check_write(file, offset, len(data))
        except FileError:
            volume.gates.leave(file)
            raise
    if not data:
        volume.gates.leave(file)
        return WriteResult(opened, opened, stability)
    try:
        before, after = await _write_inside(volume, file, offset, data)
    except NoSpace:
        await _give_back(volume, file)
        raise
    if stability is Stability.UNSTABLE:
        if len(volume.dirty) > MAX_SHADOWS:
            await settle(volume, next(iter(volume.dirty)))
        return WriteResult(before, after, stability)
    if not volume.is_relaxed:
        await settle(volume, file)
    return WriteResult(before, after, Stability.FILE_SYNC)


async def _enter_for_write(volume: Volume, identity: Identity, file: FileId, offset: int) -> File:
    """Get through the file's gate, with its tail cut if the write leaves a gap behind the end."""
    while True:
        await volume.gates.enter(file)
        try:
            opened = await volume.transactions.perform(open_for_write, identity, file, is_relaxed=volume.is_relaxed)
        except BaseException:
            volume.gates.leave(file)
            raise
        if offset <= opened.inode.size or file in volume.tails:
            return opened
        volume.gates.leave(file)
        await _cut_tail(volume, file)


async def _write_inside(volume: Volume, file: FileId, offset: int, data: Buffer) -> tuple[File, File]:
    """Write as one who is inside the gate, and leave it."""
    count = len(data)
    try:
        if volume.snapshot is not None:
            await volume.snapshot.put_aside(file, offset, offset + count)
        await volume.content.write(volume.content_of(file), offset, data)
        result = await volume.transactions.perform(written, file, offset + count, count, is_relaxed=volume.is_relaxed)
        volume.dirty[file] = None
        return result
    except StoreError as error:
        volume.tails.discard(file)
        raise failure_of(error) from error
    except BaseException:
        volume.tails.discard(file)
        raise
    finally:
        volume.gates.leave(file)


async def _give_back(volume: Volume, file: FileId) -> None:
    """What a write without success took of the room; if that fails, the next write over a gap does it."""
    try:
        await _cut_tail(volume, file)
    except FileError:
        volume.tails.discard(file)


def open_for_write(view: View, identity: Identity, file: FileId) -> File:
    opened = load(view, file)
    _check_has_content(opened.inode)
    if not access.may_write_content(identity, opened.inode):
        raise AccessDenied("no permission to write to the file")
    return opened


def written(view: View, file: FileId, end: int, count: int) -> tuple[File, File]:
    """Record a write that the content store has taken.  How much room it really takes is known when it is settled."""
    before = load(view, file)
    return before, note_written(view, before, end, count)


def note_written(view: View, file: File, end: int, count: int) -> File:
    """The same of a file as it is now; what it is then."""
    inode = file.inode
    moment = max(view.now, inode.ctime + 1)
    size = max(inode.size, end)
    shadow = replace(
        inode,
        mode=access.without_privileges(inode.mode),
        size=size,
        used=max(inode.used, min(inode.used + count, size)),
        mtime=moment,
        ctime=moment,
        verifier=b"",
    )
    view.put(UNSTABLE, file.id, shadow)
    return File(file.id, shadow, None)


# Making durable.


async def commit(volume: Volume, file: FileId) -> tuple[File, File]:
    """RFC 1813 3.3.21, always for the whole file: before and after."""
    perform = volume.transactions.perform
    before = await perform(load, file, is_relaxed=volume.is_relaxed)
    if not volume.is_relaxed:
        await settle(volume, file)
    return before, await perform(load, file, is_relaxed=volume.is_relaxed)


async def settle(volume: Volume, file: FileId) -> None:
    """Make durable what was written to a file before this call: the content first, then what the inode says of it."""
    perform = volume.transactions.perform
    await volume.gates.enter(file)
    try:
        shadow = await perform(_shadow, file, is_relaxed=True)
        if shadow is None:
            volume.dirty.pop(file, None)
            return
        used = await _sync_content(volume, file)
        await perform(_keep, file, shadow, used, is_relaxed=volume.is_relaxed)
        # Only now: if the store lost the transaction, the shadow is still what the file looks like.
        if await perform(_drop_shadow, file, shadow, is_relaxed=True):
            volume.dirty.pop(file, None)
    finally:
        volume.gates.leave(file)


async def _sync_content(volume: Volume, file: FileId) -> int:
    content = volume.content_of(file)
    try:
        await volume.content.sync(content)
        return await volume.content.allocated(content)
    except StoreError as error:
        # What was not durable yet may be lost, and nobody can say which part: clients have to send it again.
        volume.change_write_verifier()
        raise failure_of(error) from error


def _shadow(view: View, file: FileId) -> Inode | None:
    return view.get(UNSTABLE, file)


def _keep(view: View, file: FileId, synced: Inode, used: int) -> None:
    """Let the durable inode say what the shadow said before the content was synced; what is not about content it says
    already."""
    stable, shadow = view.get(INODES, file), view.get(UNSTABLE, file)
    if stable is None or shadow is None:
        return
    view.put(INODES, file, replace(shadow, size=synced.size, used=used))
    if view.get(TRUNCATIONS, file) is not None:
        view.delete(TRUNCATIONS, file)


def _drop_shadow(view: View, file: FileId, synced: Inode) -> bool:
    """Forget a shadow that nothing was written to since."""
    shadow = view.get(UNSTABLE, file)
    if shadow == synced:
        view.delete(UNSTABLE, file)
    return shadow is None or shadow == synced


# Setting the size.


async def truncate(volume: Volume, identity: Identity, file: FileId, size: int) -> Change:
    """Cut a file, or let it grow."""
    return await set_attributes(volume, identity, file, SetAttributes(size=size))


async def set_attributes(
    volume: Volume,
    identity: Identity,
    file: FileId,
    wanted: SetAttributes,
    guard_ctime: int | None = None,
    *,
    guard: LockGuard | None = None,
) -> Change:
    """RFC 1813 3.3.2, with or without a size."""
    perform = volume.transactions.perform
    check_size(volume, wanted.size or 0)
    if wanted.size is None:
        return await perform(_set_attributes, identity, file, wanted, guard_ctime, is_relaxed=volume.is_relaxed)
    await volume.gates.close(file)
    try:
        opened, durable_size = await perform(
            _open_for_resize, identity, file, wanted, guard_ctime, is_relaxed=volume.is_relaxed
        )
        if guard is not None:
            guard.check_resize(file, old=opened.inode.size, new=wanted.size)
        if wanted.size > opened.inode.size and file not in volume.tails:
            await _cut_content(volume, file, opened.inode.size)
        if wanted.size > durable_size:
            await _sync_content(volume, file)
        change = await perform(_resize, volume.id, identity, file, wanted, guard_ctime, is_relaxed=volume.is_relaxed)
        if wanted.size < change.before.inode.size:
            volume.dirty[file] = None
            await _cut_content(volume, file, wanted.size)
        return change
    finally:
        volume.gates.open(file)


def _set_attributes(
    view: View, identity: Identity, file: FileId, wanted: SetAttributes, guard_ctime: int | None
) -> Change:
    return attributes.set_attributes(view, identity, load(view, file), wanted, guard_ctime)


def _open_for_resize(
    view: View, identity: Identity, file: FileId, wanted: SetAttributes, guard_ctime: int | None
) -> tuple[File, int]:
    """The file, and the size that is durable."""
    opened = load(view, file)
    attributes.check(identity, opened, wanted, guard_ctime)
    stable = view.get(INODES, file)
    assert stable is not None, "a file that was loaded is there"
    return opened, stable.size


def _resize(
    view: View, share: ShareId, identity: Identity, file: FileId, wanted: SetAttributes, guard_ctime: int | None
) -> Change:
    """Set everything at once.  A shrunk file counts as written to, until its content is cut durably."""
    before = load(view, file)
    attributes.check(identity, before, wanted, guard_ctime)
    inode = attributes.changed(identity, before, wanted, view.now)
    stable = view.get(INODES, file)
    assert stable is not None, "a file that was loaded is there"
    is_shrunk = inode.size < before.inode.size
    if is_shrunk:
        inode = replace(inode, used=min(inode.used, inode.size))
        view.put(TRUNCATIONS, file, Truncation(share, inode.size))
    elif inode.size > stable.size and view.get(TRUNCATIONS, file) is not None:
        view.delete(TRUNCATIONS, file)  # with the content an earlier cut was synced: repeated, it would cut too much
    # Room that was taken since the content was last synced is not durable yet.
    view.put(INODES, file, replace(inode, used=min(inode.used, stable.used)))
    if is_shrunk or view.get(UNSTABLE, file) is not None:
        view.put(UNSTABLE, file, inode)
    after = File(file, inode, None)
    return Change(after, before, after)


async def _cut_tail(volume: Volume, file: FileId) -> None:
    """Make sure that a file's content ends where the file does."""
    await volume.gates.close(file)
    try:
        opened = await volume.transactions.perform(load, file, is_relaxed=True)
        await _cut_content(volume, file, opened.inode.size)
    finally:
        volume.gates.open(file)


async def _cut_content(volume: Volume, file: FileId, size: int) -> None:
    """Cut content, with the file's gate closed."""
    if volume.snapshot is not None:
        await volume.snapshot.put_aside(file, size)
    try:
        await volume.content.truncate(volume.content_of(file), size)
    except StoreError as error:
        volume.tails.discard(file)
        raise failure_of(error) from error
    volume.know_tail(file)
