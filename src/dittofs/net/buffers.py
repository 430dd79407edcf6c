"""Memory for large records, used again: a fresh megabyte for each WRITE would be cleared by the system each time."""

import mmap
from contextlib import suppress
from typing import Final

SPARE_BUFFERS: Final = 8
USUAL_BYTES: Final = 1_114_116
"""A WRITE of one megabyte with everything around it, and its record mark."""

_LARGE_PAGE: Final = 2 << 20

Memory = bytearray | mmap.mmap


class SpareBuffers:
    """A few buffers that nobody looks at any more.  The last one given is the first one taken: it is in the caches."""

    __slots__ = ("_spare",)

    def __init__(self) -> None:
        self._spare: list[Memory] = []

    def take(self, size: int) -> Memory:
        """One of at least that size."""
        spare = self._spare
        for index in range(len(spare) - 1, -1, -1):
            if len(spare[index]) >= size:
                return spare.pop(index)
        return _pages() if size <= USUAL_BYTES else bytearray(size)

    def give(self, buffer: Memory) -> None:
        if len(self._spare) < SPARE_BUFFERS:
            self._spare.append(buffer)


def _pages() -> mmap.mmap:
    """Room for what is usual, in one large page where the system has such: it is copied to and from a fifth faster."""
    memory = mmap.mmap(-1, _LARGE_PAGE)
    with suppress(AttributeError, OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
