"""Records in memory that can be walked in key order, without paying for order until somebody walks."""

from bisect import bisect_left
from itertools import islice
from typing import Protocol

from sortedcontainers import SortedList

Entry = tuple[bytes, bytes | None]


class OrderedRecords:
    """A dict whose keys are sorted when they are needed.  None as a value says: removed.

    Writers work on `values` directly, which is why a batch costs one `dict.update`.  A dict keeps the order of
    insertion, so the keys that are not sorted yet are always its newest ones.
    """

    __slots__ = ("_indexed", "_keys", "values")

    def __init__(self) -> None:
        self.values: dict[bytes, bytes | None] = {}
        self._keys: SortedList = SortedList()
        self._indexed = 0

    def scan(self, start: bytes, end: bytes, limit: int) -> list[Entry]:
        """The first `limit` with start <= key < end, removals included."""
        values = self.values
        fresh = len(values) - self._indexed
        if fresh:
            self._keys.update(list(islice(reversed(values), fresh)))
            self._indexed = len(values)
        keys = list(islice(self._keys.irange(start, end, inclusive=(True, False)), limit))
        return list(zip(keys, map(values.__getitem__, keys), strict=True))

    def forget(self, keys: list[bytes]) -> None:
        """Drop keys for good.  They must have come out of a `scan` since the last change."""
        for key in keys:
            del self.values[key]
            self._keys.remove(key)
        self._indexed -= len(keys)

    def compact(self) -> None:
        """Drop every key that says removed."""
        self.values = {key: value for key, value in self.values.items() if value is not None}
        self._keys = SortedList()
        self._indexed = 0


class Layer(Protocol):
    """Something that can be walked in key order."""

    def scan(self, start: bytes, end: bytes, limit: int) -> list[Entry]:
        """The first `limit` with start <= key < end, removals included."""


def scan_layers(layers: list[Layer], start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
    """The first `limit` records that are not removed.  Where a key is in several layers, the last of them counts."""
    found: list[tuple[bytes, bytes]] = []
    at_once = limit
    while len(found) < limit and start < end:
        entries, start = _scan_once(layers, start, end, at_once)
        found += [(key, value) for key, value in entries if value is not None]
        at_once *= 2  # so that a long stretch of removals takes few steps
    return found[:limit]


def _scan_once(layers: list[Layer], start: bytes, end: bytes, at_once: int) -> tuple[list[Entry], bytes]:
    """What all layers hold, as far as each was looked through with so many entries, and where to go on."""
    scanned: list[list[Entry]] = []
    for layer in layers:
        entries = layer.scan(start, end, at_once)
        if len(entries) == at_once:
            end = entries[-1][0] + b"\0"  # no layer has to be looked through any further
        if entries:
            scanned.append(entries)
    if len(scanned) == 1:
        return scanned[0], end
    merged: dict[bytes, bytes | None] = {}
    for entries in scanned:
        merged.update(entries)
    in_order = sorted(merged.items())
    return in_order[: bisect_left(in_order, (end,))], end
