"""Memory to read into, used again and again.

A large fresh buffer is paid for twice, by filling it with zeros and by page faults; and where `malloc` puts it, at an
odd place within a page, some processors copy several times slower.  So large reads go to pages of our own.

Nobody has to give a buffer back: it is free when nobody refers to it any more.  That is asked of the interpreter's
reference count, which every view of the memory is part of, those that a transport holds included.
"""

import mmap
import sys

BUFFER_BYTES = 1 << 20
SMALL_BYTES = 32 << 10
"""Up to here a buffer from `malloc` is cheaper."""

_UNUSED = 2  # the list's reference, and that of the question


class ReadBuffers:
    """At most `limit` buffers are kept; who comes when all are in use gets one that is thrown away afterwards."""

    def __init__(self, limit: int = 32):
        self._limit = limit
        self._buffers: list[mmap.mmap] = []

    def take(self, count: int) -> bytearray | memoryview:
        """Room for `count` bytes; what is in it is undefined."""
        if count <= SMALL_BYTES or count > BUFFER_BYTES:
            return bytearray(count)
        buffers = self._buffers
        for index in range(len(buffers)):
            if sys.getrefcount(buffers[index]) == _UNUSED:
                return memoryview(buffers[index])[:count]
        if len(buffers) >= self._limit:
            return bytearray(count)
        fresh = _touched_pages(BUFFER_BYTES)
        buffers.append(fresh)
        return memoryview(fresh)[:count]


def touched(count: int) -> memoryview:
    """Pages for good."""
    return memoryview(_touched_pages(count))


def _touched_pages(count: int) -> mmap.mmap:
    """A page that was never touched makes a read that must not wait come back empty-handed (EAGAIN)."""
    fresh = mmap.mmap(-1, count)
    fresh.write(bytes(count))
    return fresh
