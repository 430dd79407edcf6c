"""Who said that he mounted what: for `showmount`, and for nothing else.

The list is a courtesy (RFC 1813 5.2.2): clients that crash never take themselves out, so it is bounded, in memory, and
no decision rests on it.
"""

from collections.abc import Iterator
from typing import NamedTuple

MOUNTS_KEPT = 4096


class Mount(NamedTuple):
    """A client and the path it mounted."""

    address: str
    path: bytes


class MountList:
    """Each pair once; when it is full the oldest goes."""

    def __init__(self) -> None:
        self._mounts: dict[Mount, None] = {}

    def add(self, mount: Mount) -> None:
        self._mounts.pop(mount, None)
        if len(self._mounts) >= MOUNTS_KEPT:
            del self._mounts[next(iter(self._mounts))]
        self._mounts[mount] = None

    def remove(self, mount: Mount) -> None:
        self._mounts.pop(mount, None)

    def remove_all(self, address: str) -> None:
        for mount in [mount for mount in self._mounts if mount.address == address]:
            del self._mounts[mount]

    def __iter__(self) -> Iterator[Mount]:
        return iter(sorted(self._mounts))
