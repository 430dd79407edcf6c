"""The memory content store against the contract."""

import asyncio
from pathlib import Path

import pytest

from dittofs.model.ids import ContentId, FileId, ShareId
from dittofs.stores.api import ContentStore, StoreFull
from dittofs.stores.content.memory import MemoryContentStore
from dittofs.testing.content_suite import ContentStoreSuite

ONE = ContentId(ShareId(b"share-01"), FileId(1))
TWO = ContentId(ShareId(b"share-01"), FileId(2))


class TestMemoryContentStore(ContentStoreSuite):
    def make_store(self, path: Path) -> ContentStore:
        return MemoryContentStore()


def test_write_beyond_the_capacity_is_refused_and_changes_nothing() -> None:
    async def story() -> None:
        store = MemoryContentStore(capacity=100_000)
        await store.write(ONE, 0, b"a" * 80_000)
        with pytest.raises(StoreFull, match="80000 of 100000"):
            await store.write(TWO, 0, b"b" * 30_000)
        with pytest.raises(StoreFull):
            await store.write(ONE, 70_000, b"c" * 40_000)
        assert await store.read(ONE, 0, 200_000) == b"a" * 80_000
        assert await store.read(TWO, 0, 200_000) == b""
        assert list(store.contents(ONE.share)) == [ONE]
        await store.write(ONE, 0, b"d" * 80_000)
        assert store.usage()[:3] == (100_000, 20_000, 20_000)
        await store.truncate(ONE, 10_000)
        await store.write(TWO, 0, b"b" * 30_000)
        assert store.usage().free == 60_000
        await store.remove(ONE)
        await store.remove(TWO)
        assert store.usage().free == 100_000

    asyncio.run(story())


def test_small_file_takes_little() -> None:
    async def story() -> None:
        store = MemoryContentStore()
        await store.write(ONE, 0, b"ten bytes.")
        assert await store.allocated(ONE) == 10

    asyncio.run(story())
