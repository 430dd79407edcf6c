"""Memory for large records, used again: a fresh megabyte for each WRITE would be cleared by the system each time."""

from typing import Final

SPARE_BUFFERS: Final = 8
USUAL_BYTES: Final = 1_114_116
"""A WRITE of one megabyte with everything around it, and its record mark."""


class SpareBuffers:
    """A few buffers that nobody looks at any more."""

    __slots__ = ("_spare",)

    def __init__(self) -> None:
        self._spare: list[bytearray] = []

    def take(self, size: int) -> bytearray:
        """One of at least that size."""
        for index, buffer in enumerate(self._spare):
            if len(buffer) >= size:
                return self._spare.pop(index)
        return bytearray(max(size, USUAL_BYTES))

    def give(self, buffer: bytearray) -> None:
        if len(self._spare) < SPARE_BUFFERS:
            self._spare.append(buffer)
