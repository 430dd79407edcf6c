"""The embedded store against the contract."""

from pathlib import Path

from dittofs.stores.api import MetadataStore
from dittofs.stores.metadata.embedded import EmbeddedMetadataStore
from dittofs.testing.metadata_suite import DurableMetadataStoreSuite


def small_store(path: Path, **options: object) -> EmbeddedMetadataStore:
    """One with little files, so that a test sees many segments and folds."""
    sizes: dict[str, object] = {
        "segment_bytes": 1 << 16,
        "log_bytes": 1 << 20,
        "map_bytes": 1 << 20,
        "reserve_bytes": 1 << 16,
    }
    return EmbeddedMetadataStore(path, **(sizes | options))  # type: ignore[arg-type]


class TestEmbeddedMetadataStore(DurableMetadataStoreSuite):
    def make_store(self, path: Path) -> MetadataStore:
        return small_store(path)
