"""A share as it was at one moment, while it is being changed: for backups.

First nothing may change: `Volume.is_frozen` sends changes away (TryLater) until the tree was walked.  From then on
whoever changes bytes of a file that was not copied yet puts the old ones aside first, in a file of the snapshot's own,
and content of removed files is not reclaimed.  A snapshot never makes a change fail: if it cannot put something aside,
it is the snapshot that is lost.
"""

import contextlib
import os
from bisect import bisect_left, insort
from collections.abc import AsyncIterator, Iterator
from typing import BinaryIO, NamedTuple

from dittofs.files.cookies import END_OF_PLACES, FIRST_PLACE
from dittofs.files.inodes import load
from dittofs.files.records import ENTRIES, Entry, FileType
from dittofs.files.values import File
from dittofs.files.volume import Volume
from dittofs.model.ids import FileId
from dittofs.stores.api import Buffer, StoreError
from dittofs.stores.tables import View

BLOCK_BYTES = 128 * 1024
ENTRIES_AT_ONCE = 64


class SnapshotLost(Exception):
    """There is no such moment any more; the message says why."""


class Listed(NamedTuple):
    """A name, and its file as the snapshot has it."""

    directory: FileId
    name: bytes
    file: File


class _Aside:
    """The blocks of one file that were put aside: where they lie, and their numbers in order."""

    __slots__ = ("numbers", "places")

    def __init__(self) -> None:
        self.places: dict[int, tuple[int, int]] = {}
        self.numbers: list[int] = []

    def add(self, block: int, place: tuple[int, int]) -> None:
        self.places[block] = place
        insort(self.numbers, block)

    def first_from(self, block: int) -> int | None:
        at = bisect_left(self.numbers, block)
        return self.numbers[at] if at < len(self.numbers) else None


class Snapshot:
    """One at a time for each volume.  `spool` is an empty file that nobody else knows."""

    def __init__(self, volume: Volume, spool: BinaryIO):
        self._volume = volume
        self._spool = spool
        self._end = 0
        self._lost = ""
        self._pending: dict[FileId, int] = {}
        """Files whose content is not copied yet, with their sizes."""
        self._aside: dict[FileId, _Aside] = {}

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """While it exists; it begins frozen."""
        assert self._volume.snapshot is None, "one snapshot at a time"
        self._volume.snapshot = self
        self._volume.is_frozen = True
        try:
            yield
        finally:
            self._volume.is_frozen = False
            self._volume.snapshot = None
            self._pending.clear()
            self._aside.clear()
            self._volume.on_removed()  # what waited to be reclaimed

    def thaw(self) -> None:
        """The tree is walked: let changes in again."""
        self._volume.is_frozen = False

    def lose(self, why: str) -> None:
        """It cannot be had any more; whoever reads it hears why."""
        self._lost = self._lost or why
        self._volume.is_frozen = False
        self._pending.clear()
        self._aside.clear()

    def check(self) -> None:
        """Raises SnapshotLost."""
        if self._lost:
            raise SnapshotLost(self._lost)

    # The tree, while it is frozen.

    async def root(self) -> File:
        volume = self._volume
        return await volume.transactions.perform(load, volume.root, is_relaxed=volume.is_relaxed)

    async def walk(self) -> AsyncIterator[list[Listed]]:
        """Every name below the root, some at a time; a directory's own name comes before the names in it."""
        volume = self._volume
        todo: list[tuple[FileId, int]] = [(volume.root, FIRST_PLACE)]
        while todo:
            self.check()
            directory, place = todo.pop()
            found, following = await volume.transactions.perform(
                _listed, directory, place, is_relaxed=volume.is_relaxed
            )
            if following is not None:
                todo.append((directory, following))
            for one in found:
                if one.file.is_directory:
                    todo.append((one.file.id, FIRST_PLACE))
                elif one.file.inode.type is FileType.REGULAR and one.file.inode.size:
                    self._pending[one.file.id] = one.file.inode.size
            yield found

    # The content, while it is changed.

    async def put_aside(self, file: FileId, start: int, end: int | None = None) -> None:
        """Before these bytes are changed; without an end, before everything behind `start` is cut."""
        size = self._pending.get(file)
        if size is None or start >= size:
            return
        try:
            await self._put_aside(file, start, size if end is None else min(end, size), is_cut=end is None)
        except (StoreError, OSError) as error:
            self.lose(f"old content could not be put aside: {error}")

    async def _put_aside(self, file: FileId, start: int, end: int, *, is_cut: bool) -> None:
        volume = self._volume
        content = volume.content_of(file)
        aside = self._aside.setdefault(file, _Aside())
        position = start
        while position < end:
            if is_cut:
                written = await volume.content.data_from(content, position)
                if written is None:
                    return  # what was never written is not lost by a cut
                position = max(position, written)
            block = position // BLOCK_BYTES
            position = (block + 1) * BLOCK_BYTES
            if block in aside.places:
                continue
            data = await volume.content.read(content, block * BLOCK_BYTES, BLOCK_BYTES)
            if file not in self._pending:
                return
            # Nobody writes before his own look at the block is here, so the first one that arrives is the old one.
            if block not in aside.places:
                aside.add(block, self._spooled(data))

    def _spooled(self, data: Buffer) -> tuple[int, int]:
        place = (self._end, len(data))
        view = memoryview(data)
        while view:
            written = os.pwrite(self._spool.fileno(), view, self._end)
            self._end += written
            view = view[written:]
        return place

    async def contents(self) -> AsyncIterator[tuple[FileId, int, bytes]]:
        """All content that is not zeros, file by file.  Raises SnapshotLost, StoreError."""
        while True:
            self.check()
            if not self._pending:
                return
            file, size = next(iter(self._pending.items()))
            block = 0
            while (found := await self._next_block(file, block, size)) is not None:
                block, data = found
                if data.strip(b"\0"):
                    yield file, block * BLOCK_BYTES, data[: size - block * BLOCK_BYTES]
                block += 1
                self.check()
            self._pending.pop(file, None)
            self._aside.pop(file, None)

    async def _next_block(self, file: FileId, block: int, size: int) -> tuple[int, bytes] | None:
        """The first block from here on that may hold something, as it was."""
        volume = self._volume
        content = volume.content_of(file)
        written = await volume.content.data_from(content, block * BLOCK_BYTES)
        aside = self._aside.get(file)
        candidates = [] if written is None else [max(block, written // BLOCK_BYTES)]
        kept = None if aside is None else aside.first_from(block)
        if kept is not None:
            candidates.append(kept)
        if not candidates or min(candidates) * BLOCK_BYTES >= size:
            return None
        block = min(candidates)
        data = bytes(await volume.content.read(content, block * BLOCK_BYTES, BLOCK_BYTES))
        # Looked for after the read: if the old bytes are not there, nobody had begun to change them.
        aside = self._aside.get(file)
        if aside is not None and block in aside.places:
            offset, length = aside.places[block]
            data = os.pread(self._spool.fileno(), length, offset)
        return block, data


def _listed(view: View, directory: FileId, place: int) -> tuple[list[Listed], int | None]:
    """Some names of a directory, and where the next ones begin."""
    records: list[tuple[tuple[FileId, int], Entry]] = list(
        view.scan(ENTRIES, (directory, place), (directory, END_OF_PLACES), ENTRIES_AT_ONCE)
    )
    found = [Listed(directory, entry.name, load(view, entry.file)) for _, entry in records if entry.file]
    return found, records[-1][0][1] + 1 if len(records) == ENTRIES_AT_ONCE else None
