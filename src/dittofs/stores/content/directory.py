"""Content as files below a directory: the default.

A file is ``SHARE/HHH/HH/FILE``: the share's id, two groups of digits that keep some 256 neighbours in one directory,
and the whole file id, all in hexadecimal.  What is in the page cache is read and written at once in the
loop's thread; only cold reads and flushes go to threads.
"""

import asyncio
import errno
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

from dittofs.model.ids import ContentId, FileId, ShareId
from dittofs.model.unread import Unread
from dittofs.stores.api import Buffer, ContentStore, StoreError, Usage
from dittofs.stores.content.buffers import SMALL_BYTES, ReadBuffers, touched
from dittofs.stores.content.descriptors import Descriptors, OpenFile
from dittofs.stores.content.page_cache import is_cached
from dittofs.stores.content.slices import FileSlice, read_fully
from dittofs.stores.data_directory import DataDirectory, flush_directory, flush_file, largest_file
from dittofs.stores.system_errors import store_error

KIND = "content-directory"
VERSION = 1
USAGE_SECONDS = 1.0
"""So long an answer of the file system about its room is good."""

SLOW_REMOVAL_BYTES = 64 << 20
"""Freeing more than this takes long enough for a thread."""

_NO_WAITING: int = getattr(os, "RWF_NOWAIT", 0)


class DirectoryContentStore(ContentStore):
    """`open_files` bounds the descriptors, `threads` what waits for the disk at the same time."""

    is_volatile: ClassVar[bool] = False

    def __init__(
        self,
        path: Path,
        *,
        open_files: int = 512,
        threads: int = 8,
        is_read_only: bool = False,
        sync: Callable[[int], None] = flush_file,
    ) -> None:
        self._root = Path(path)
        self._directory = DataDirectory(self._root, kind=KIND, version=VERSION, is_read_only=is_read_only)
        self._is_read_only = is_read_only
        self._threads = threads
        self._sync = sync
        self._executor: ThreadPoolExecutor | None = None
        self._files = Descriptors(open_files, self._path, is_read_only=is_read_only)
        self._buffers = ReadBuffers()
        self._small_room = touched(SMALL_BYTES)
        """Where little is read to, to be copied out at once: cheaper than memory of its own, which is cleared first."""
        self._small = [self._small_room]
        """As much of it as was read to last, as it is handed to the system."""
        self._flushes: dict[ContentId, _Flush] = {}
        self._names = 0
        self._unflushed: dict[Path, int] = {}
        """Directories with names that are not durable, and the number of the newest such name."""
        self._removed_in: set[Path] = set()
        """Directories that a name was removed from, not durably yet."""
        self._settling: Future[None] | None = None
        self._trusted: set[Path] = set()
        self._broken: set[ContentId] = set()
        self._usage: Usage | None = None
        self._usage_until = 0.0
        self._largest_file = 2**63 - 1

    def open(self) -> None:
        self._directory.acquire()
        self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="dittofs-content")
        if self._is_read_only:
            return
        self._largest_file = largest_file(self._root)
        self._trusted.clear()
        self._settling = None
        if not self._directory.was_left_clean:
            # Whoever was killed left names that are flushed nowhere, and we do not know which.  On a busy machine this
            # takes long: until it is done, a directory is trusted when it was flushed once.
            self._settling = self._executor.submit(os.sync)

    def close(self) -> None:
        if self._executor is None:
            return
        self._executor.shutdown()
        self._executor = None
        self._files.close()
        # The next server takes what was left in order for durable, as far as names go.
        for directory in self._removed_in.union(self._unflushed):
            flush_directory(directory)
        self._unflushed.clear()
        self._removed_in.clear()
        self._directory.release()

    def read_now(self, content: ContentId, offset: int, count: int) -> Buffer | None:
        file = self._files.get(content)
        if file is None:
            return b""
        left = file.size - offset
        if count > left:
            count = left
        if count <= 0:
            return b""
        if count > SMALL_BYTES:
            buffer = self._buffers.take(count)
            return buffer if self._read_cached(file, [buffer], offset) == count else None
        small = self._small
        if count != small[0].nbytes:
            small = self._small = [self._small_room[:count]]
        return small[0].tobytes() if self._read_cached(file, small, offset) == count else None

    def unread(self, content: ContentId, offset: int, count: int) -> Unread | None:
        file = self._files.get(content)
        if file is None or offset + count > file.size or not is_cached(file.descriptor, offset, count):
            return None
        return FileSlice(file, offset, count, self._buffers)

    async def read(self, content: ContentId, offset: int, count: int) -> Buffer:
        file = self._files.get(content)
        if file is None:
            return b""
        count = min(count, file.size - offset)
        if count <= 0:
            return b""
        buffer = self._buffers.take(count)
        done = self._read_cached(file, [buffer], offset)
        if done < count:
            rest = memoryview(buffer)[done:]
            await self._in_thread(file, read_fully, file.descriptor, rest, offset + done)
        return buffer

    async def write(self, content: ContentId, offset: int, data: Buffer) -> None:
        self.write_now(content, offset, data)

    def write_now(self, content: ContentId, offset: int, data: Buffer) -> bool:
        self._refuse_if_read_only()
        file = self._files.get(content) or self._create(content)
        before = file.size
        rest = memoryview(data)
        position = offset
        file.is_dirty = True
        try:
            while rest:
                written = os.pwrite(file.descriptor, rest, position)
                rest, position = rest[written:], position + written
                file.size = max(file.size, position)
        except OSError as error:
            self._usage = None  # there is less room than was thought
            if file.size > before:
                os.ftruncate(file.descriptor, before)
                file.size = before
            raise store_error(error, f"cannot write {self._path(content)}") from error
        return True

    async def truncate(self, content: ContentId, size: int) -> None:
        self._refuse_if_read_only()
        file = self._files.get(content)
        if file is None or size >= file.size:
            return
        file.is_dirty = True
        try:
            os.ftruncate(file.descriptor, size)
        except OSError as error:
            raise store_error(error, f"cannot write {self._path(content)}") from error
        file.size = size

    async def sync(self, content: ContentId) -> None:
        if content in self._broken:
            raise StoreError(f"{self._path(content)} lost data in an earlier flush that failed")
        file = self._files.get(content)
        if file is None or not (file.is_dirty or content in self._flushes):
            return
        flush = self._flushes.get(content)
        if flush is None:
            flush = self._flushes[content] = _Flush()
        # One that began before this call may have missed its bytes; one that waits for its turn has not.
        if flush.next is None:
            file.hold()
            flush.next = asyncio.ensure_future(self._flush(content, file, flush, flush.running))
            flush.next.add_done_callback(lambda _: file.release())
            flush.next.add_done_callback(_hear)
        await asyncio.shield(flush.next)

    async def remove(self, content: ContentId) -> None:
        self._refuse_if_read_only()
        path = self._path(content)
        self._files.drop(content)
        self._broken.discard(content)
        try:
            if os.stat(path).st_blocks * 512 > SLOW_REMOVAL_BYTES:
                await asyncio.get_running_loop().run_in_executor(self._executor, os.unlink, path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            if not self._is_distrusted(Path(path).parent) or not Path(path).parent.is_dir():
                return
        except OSError as error:
            raise store_error(error, f"cannot remove {path}") from error
        self._removed_in.add(Path(path).parent)

    async def sync_removals(self) -> None:
        directories, self._removed_in = self._removed_in, set()
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, _flush_directories, directories)
        except BaseException as error:
            self._removed_in |= directories
            if isinstance(error, OSError):
                raise store_error(error, f"cannot flush removals below {self._root}") from error
            raise

    async def allocated(self, content: ContentId) -> int:
        file = self._files.get(content)
        return 0 if file is None else os.fstat(file.descriptor).st_blocks * 512

    async def data_from(self, content: ContentId, offset: int) -> int | None:
        file = self._files.get(content)
        if file is None or offset >= file.size:
            return None
        try:
            return os.lseek(file.descriptor, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            raise store_error(error, f"cannot read {self._path(content)}") from error

    def usage(self) -> Usage:
        now = time.monotonic()
        if self._usage is None or now >= self._usage_until:
            found = os.statvfs(self._root)
            unit = found.f_frsize
            self._usage = Usage(
                found.f_blocks * unit, found.f_bfree * unit, found.f_bavail * unit, largest_file=self._largest_file
            )
            self._usage_until = now + USAGE_SECONDS
        return self._usage

    def contents(self, share: ShareId) -> Sequence[ContentId]:
        return [ContentId(share, FileId(int(path.name, 16))) for path in (self._root / share.hex()).glob("*/*/*")]

    def _refuse_if_read_only(self) -> None:
        if self._is_read_only:
            raise StoreError(f"{self._root} is open for reading only")

    # Where things are.

    def _path(self, content: ContentId) -> str:
        share, file = content
        return f"{self._root}/{share.hex()}/{file >> 16 & 0xFFF:03x}/{file >> 8 & 0xFF:02x}/{file:016x}"

    def _directories_of(self, content: ContentId) -> list[Path]:
        """Where its name is, and theirs, up to the root of the store."""
        return list(Path(self._path(content)).parents[:4])

    def _is_distrusted(self, directory: Path) -> bool:
        """Whether it may hold names of an earlier life that are not durable."""
        if self._settling is None:
            return False
        if self._settling.done():
            self._settling = None
            self._trusted.clear()
            return False
        return directory not in self._trusted

    def _create(self, content: ContentId) -> OpenFile:
        path = self._path(content)
        directory = Path(path).parent
        try:
            try:
                file = self._files.create(content)
            except FileNotFoundError:
                self._make_directories(directory)
                file = self._files.create(content)
        except OSError as error:
            raise store_error(error, f"cannot make {path}") from error
        self._note_name_in(directory)
        return file

    def _make_directories(self, directory: Path) -> None:
        if directory == self._root or directory.is_dir():
            return
        self._make_directories(directory.parent)
        directory.mkdir(exist_ok=True)
        self._note_name_in(directory.parent)

    def _note_name_in(self, directory: Path) -> None:
        self._names += 1
        self._unflushed[directory] = self._names

    # What may wait.

    def _read_cached(self, file: OpenFile, buffers: Sequence[bytearray | memoryview], offset: int) -> int:
        """How many bytes could be had without waiting for the disk."""
        try:
            return os.preadv(file.descriptor, buffers, offset, _NO_WAITING)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise store_error(error, f"cannot read below {self._root}") from error
            return os.preadv(file.descriptor, buffers, offset)  # tmpfs: always in memory

    async def _in_thread(self, file: OpenFile, work: Callable[..., None], *arguments: object) -> None:
        file.hold()
        assert self._executor is not None, "the store is not open"
        job = self._executor.submit(work, *arguments)
        job.add_done_callback(lambda _: file.release())
        try:
            await asyncio.wrap_future(job)
        except OSError as error:
            raise store_error(error, f"cannot read or flush below {self._root}") from error

    async def _flush(
        self, content: ContentId, file: OpenFile, flush: "_Flush", before: "asyncio.Future[None] | None"
    ) -> None:
        """Flush bytes and names, after the flush that is running."""
        try:
            if before is not None:
                await asyncio.wait([before])
            flush.running, flush.next = flush.next, None
            names = {
                path: self._unflushed.get(path, 0)
                for path in self._directories_of(content)
                if path in self._unflushed or self._is_distrusted(path)
            }
            file.is_dirty = False
            try:
                await self._in_thread(file, self._flush_blocking, file.descriptor, list(names))
            except StoreError:
                # The kernel may have dropped the bytes and would report success next time.
                self._broken.add(content)
                raise
            for directory, newest in names.items():
                if self._unflushed.get(directory) == newest:
                    del self._unflushed[directory]
            if self._settling is not None:
                self._trusted.update(names)
        finally:
            if flush.next is None:
                self._flushes.pop(content, None)

    def _flush_blocking(self, descriptor: int, names: Iterable[Path]) -> None:
        self._sync(descriptor)
        _flush_directories(names)


class _Flush:
    """The flushes of one file: the one that runs, and the one that whoever comes now will share."""

    __slots__ = ("next", "running")

    def __init__(self) -> None:
        self.running: asyncio.Future[None] | None = None
        self.next: asyncio.Future[None] | None = None


def _flush_directories(directories: Iterable[Path]) -> None:
    for directory in directories:
        flush_directory(directory)


def _hear(flush: "asyncio.Future[None]") -> None:
    """Whoever waited for it may have gone; its error is not lost by that."""
    if not flush.cancelled():
        flush.exception()
