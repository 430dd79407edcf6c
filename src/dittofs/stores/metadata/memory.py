"""Records in memory: the quickest store, and the one that forgets everything."""

from collections.abc import Sequence
from typing import ClassVar

from dittofs.stores.api import Change, MetadataStore, check_keys
from dittofs.stores.metadata.ordered import OrderedRecords


class MemoryMetadataStore(MetadataStore):
    """A removed key stays as a mark until a scan meets it, or until the marks are as many as the records."""

    is_volatile: ClassVar[bool] = True

    def __init__(self) -> None:
        self._records = OrderedRecords()
        self._removals = 0

    def open(self) -> None:
        pass

    def close(self) -> None:
        self._records = OrderedRecords()
        self._removals = 0

    def get(self, key: bytes) -> bytes | None:
        return self._records.values.get(key)

    def scan(self, start: bytes, end: bytes, limit: int) -> Sequence[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        at_once = limit
        while len(found) < limit and start < end:
            entries = self._records.scan(start, end, at_once)
            there = [(key, value) for key, value in entries if value is not None]
            found += there
            if len(there) < len(entries):
                self._records.forget([key for key, value in entries if value is None])
            if len(entries) < at_once:
                break
            start = entries[-1][0] + b"\0"
            at_once *= 2  # so that a long stretch of removals takes few steps
        return found[:limit]

    def apply(self, changes: Sequence[Change]) -> None:
        check_keys(changes)
        self._records.values.update(changes)
        self._removals += sum(value is None for _, value in changes)
        if self._removals > 1024 and self._removals * 2 > len(self._records.values):
            self._records.compact()
            self._removals = 0

    def flush(self) -> None:
        pass

    def revert(self) -> None:
        pass
