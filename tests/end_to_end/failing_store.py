"""A metadata store for real servers that fails while a file named `fail` lies beside it: its disk is broken then."""

from pathlib import Path

from dittofs.stores.api import StoreError
from dittofs.stores.metadata.embedded import EmbeddedMetadataStore


class FailingStore(EmbeddedMetadataStore):
    def __init__(self, path: str):
        super().__init__(Path(path))
        self._flag = Path(path).parent / "fail"

    def flush(self) -> None:
        if self._flag.exists():
            raise StoreError("the disk is broken, as the test asked for")
        super().flush()
