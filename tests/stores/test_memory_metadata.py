"""The memory store against the contract."""

from pathlib import Path

from dittofs.stores.api import MetadataStore
from dittofs.stores.metadata.memory import MemoryMetadataStore
from dittofs.testing.metadata_suite import LAST, MetadataStoreSuite


class TestMemoryMetadataStore(MetadataStoreSuite):
    def make_store(self, path: Path) -> MetadataStore:
        return MemoryMetadataStore()


def test_marks_of_removed_keys_do_not_pile_up() -> None:
    store = MemoryMetadataStore()
    store.apply([(b"stays", b"1")])
    for number in range(20_000):
        store.apply([(b"%08d" % number, b"v")])
        store.apply([(b"%08d" % number, None)])
    assert len(store._records.values) < 3000
    assert list(store.scan(b"\0", LAST, 10)) == [(b"stays", b"1")]


def test_scan_forgets_the_removed_keys_it_met() -> None:
    store = MemoryMetadataStore()
    store.apply([(b"%04d" % number, b"v") for number in range(900)])
    store.apply([(b"%04d" % number, None) for number in range(899)])
    assert list(store.scan(b"0", b"9", 10)) == [(b"0899", b"v")]
    assert len(store._records.values) == 1
    store.apply([(b"0005", b"again")])
    assert list(store.scan(b"0", b"9", 10)) == [(b"0005", b"again"), (b"0899", b"v")]
