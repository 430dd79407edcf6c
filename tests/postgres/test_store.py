"""PostgreSQL as a store that several servers share [STORE-2]."""

import asyncio
from collections.abc import Callable

import pytest

from dittofs.stores.api import StoreError
from dittofs.stores.metadata.postgres import PostgresMetadataStore
from dittofs.stores.sharing import ABSENT, Commit, SharedStore
from dittofs.testing.shared_suite import SharedStoreSuite

pytestmark = pytest.mark.slow


class TestPostgresMetadataStore(SharedStoreSuite):
    @pytest.fixture
    def make_store(self, dsn: str) -> Callable[[], SharedStore]:
        return lambda: PostgresMetadataStore(dsn)


def test_a_commit_that_was_given_up_never_happens(dsn: str) -> None:
    """DESIGN 2, was it committed: whoever is told no may do it again, also if the first one was only late."""

    async def story() -> None:
        store = PostgresMetadataStore(dsn)
        await store.open()
        late = store._fence
        assert not await store.was_committed(1)
        fence, store._fence = store._fence, late
        with pytest.raises(StoreError, match="given up"):
            await store.commit(Commit(1, {}, {b"key": b"late"}, False))
        store._fence = fence
        assert (await store.refresh({b"key": ABSENT}, [])).changed == []
        assert await store.commit(Commit(1, {}, {b"key": b"again"}, False)) == []
        assert await store.was_committed(1)
        await store.close()

    asyncio.run(story())
