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
        removed: list[bytes] = []
        if limit > 0:
            for key, value in self._records.scan(start, end):
                if value is None:
                    removed.append(key)
                    continue
                found.append((key, value))
                if len(found) >= limit:
                    break
        if removed:
            self._records.forget(removed)
        return found

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
