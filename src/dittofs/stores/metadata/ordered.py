"""Records in memory that can be walked in key order, without paying for order until somebody walks."""

from collections.abc import Iterator
from itertools import islice

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

    def scan(self, start: bytes, end: bytes) -> Iterator[Entry]:
        """Everything with start <= key < end, removals included.  Must be consumed before the next change."""
        values = self.values
        fresh = len(values) - self._indexed
        if fresh:
            self._keys.update(list(islice(reversed(values), fresh)))
            self._indexed = len(values)
        return ((key, values[key]) for key in self._keys.irange(start, end, inclusive=(True, False)))

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


def overlay(upper: Iterator[Entry], lower: Iterator[Entry]) -> Iterator[Entry]:
    """Both in key order; where a key is in both, `upper` wins."""
    above = next(upper, None)
    if above is None:
        yield from lower
        return
    for below in lower:
        key = below[0]
        while above is not None and above[0] < key:
            yield above
            above = next(upper, None)
        if above is not None and above[0] == key:
            yield above
            above = next(upper, None)
        else:
            yield below
    if above is not None:
        yield above
        yield from upper


def present(entries: Iterator[Entry], limit: int) -> list[tuple[bytes, bytes]]:
    """The first `limit` records that are not removed."""
    return list(islice(((key, value) for key, value in entries if value is not None), max(0, limit)))
