"""Content in memory, page by page: holes cost nothing, and everything is gone after a restart."""

import os
from collections.abc import Sequence
from typing import ClassVar

from dittofs.model.ids import ContentId, ShareId
from dittofs.stores.api import Buffer, ContentStore, StoreFull, Usage
from dittofs.stores.content.buffers import SMALL_BYTES, ReadBuffers

PAGE_BYTES = 65_536


class MemoryContentStore(ContentStore):
    """`capacity` in bytes; without it, half of the machine's memory."""

    is_volatile: ClassVar[bool] = True

    def __init__(self, *, capacity: int | None = None) -> None:
        self._capacity = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 if capacity is None else capacity
        self._used = 0
        self._files: dict[ContentId, _Pages] = {}
        self._buffers = ReadBuffers()

    def open(self) -> None:
        pass

    def close(self) -> None:
        self._files.clear()
        self._used = 0

    def read_now(self, content: ContentId, offset: int, count: int) -> Buffer:
        file = self._files.get(content)
        return b"" if file is None else file.read(offset, count, self._buffers)

    async def read(self, content: ContentId, offset: int, count: int) -> Buffer:
        return self.read_now(content, offset, count)

    async def write(self, content: ContentId, offset: int, data: Buffer) -> None:
        self.write_now(content, offset, data)

    def write_now(self, content: ContentId, offset: int, data: Buffer) -> bool:
        file = self._files.get(content)
        if file is not None and file.replace(offset, data):
            return True
        grown = (file or _Pages()).growth(offset, len(data))
        if self._used + grown > self._capacity:
            raise StoreFull(f"the memory store is full: {self._used} of {self._capacity} bytes are used")
        if file is None:
            file = self._files[content] = _Pages()
        file.write(offset, data)
        self._used += grown
        return True

    async def truncate(self, content: ContentId, size: int) -> None:
        file = self._files.get(content)
        if file is not None:
            self._used -= file.truncate(size)

    async def sync(self, content: ContentId) -> None:
        pass

    async def remove(self, content: ContentId) -> None:
        file = self._files.pop(content, None)
        if file is not None:
            self._used -= file.allocated

    async def allocated(self, content: ContentId) -> int:
        file = self._files.get(content)
        return 0 if file is None else file.allocated

    async def data_from(self, content: ContentId, offset: int) -> int | None:
        file = self._files.get(content)
        return None if file is None else file.data_from(offset)

    def usage(self) -> Usage:
        free = max(0, self._capacity - self._used)
        return Usage(total=self._capacity, free=free, available=free)

    def contents(self, share: ShareId) -> Sequence[ContentId]:
        return [content for content in self._files if content.share == share]


class _Pages:
    """The bytes of one file.  A page is only as long as what was written to it, so small files stay small."""

    __slots__ = ("_pages", "_size", "allocated")

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}
        self._size = 0
        self.allocated = 0

    def read(self, offset: int, count: int, buffers: ReadBuffers) -> Buffer:
        count = min(count, self._size - offset)
        if count <= 0:
            return b""
        number, begin = divmod(offset, PAGE_BYTES)
        page = self._pages.get(number)
        if page is not None and begin + count <= len(page) and count <= SMALL_BYTES:
            return bytes(memoryview(page)[begin : begin + count])
        found = buffers.take(count)
        position = 0
        for number, begin, stop in _pieces(offset, count):
            part = memoryview(self._pages.get(number, b""))[begin:stop]
            end = position + len(part)
            found[position:end] = part
            position += stop - begin
            if end < position:
                found[end:position] = bytes(position - end)
        return found

    def data_from(self, offset: int) -> int | None:
        first = offset // PAGE_BYTES
        if first in self._pages:
            return offset if offset < self._size else None
        following = min((number for number in self._pages if number > first), default=None)
        return None if following is None else following * PAGE_BYTES

    def growth(self, offset: int, count: int) -> int:
        """How many more bytes a write would allocate."""
        total = 0
        for number, _, stop in _pieces(offset, count):
            total += max(0, stop - len(self._pages.get(number, b"")))
        return total

    def replace(self, offset: int, data: Buffer) -> bool:
        """Write over what lies within one page already; False if that is not all."""
        number, begin = divmod(offset, PAGE_BYTES)
        stop = begin + len(data)
        page = self._pages.get(number)
        if page is None or stop > len(page):
            return False
        memoryview(page)[begin:stop] = data  # as in `write`
        return True

    def write(self, offset: int, data: Buffer) -> None:
        view = memoryview(data)
        position = 0
        for number, begin, stop in _pieces(offset, len(view)):
            page = self._pages.get(number)
            if page is None:
                page = self._pages[number] = bytearray()
            before = len(page)
            if begin > before:
                page.extend(bytes(begin - before))
            part = view[position : position + stop - begin]
            if stop <= before:
                # Not by a slice of the page itself: that makes a copy first of everything but a bytearray.
                memoryview(page)[begin:stop] = part
            else:
                del page[begin:]
                page += part
                self.allocated += stop - before
            position += stop - begin
        if position:
            self._size = max(self._size, offset + position)

    def truncate(self, size: int) -> int:
        """How many bytes were given back."""
        if size >= self._size:
            return 0
        before = self.allocated
        last, rest = divmod(size, PAGE_BYTES)
        for number in [number for number in self._pages if number > last or (number == last and rest == 0)]:
            self.allocated -= len(self._pages.pop(number))
        page = self._pages.get(last)
        if page is not None and len(page) > rest:
            self.allocated -= len(page) - rest
            del page[rest:]
        self._size = size
        return before - self.allocated


def _pieces(offset: int, count: int) -> list[tuple[int, int, int]]:
    """A range as (page, begin, stop) within pages."""
    pieces = []
    end = offset + count
    while offset < end:
        number, begin = divmod(offset, PAGE_BYTES)
        stop = min(PAGE_BYTES, begin + end - offset)
        pieces.append((number, begin, stop))
        offset += stop - begin
    return pieces
