"""Every driver, over every kind of store, is the same to a procedure [STORE-2]."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dittofs.stores.api import MetadataStore
from dittofs.stores.metadata.embedded import EmbeddedMetadataStore
from dittofs.stores.metadata.memory import MemoryMetadataStore
from dittofs.stores.metadata.postgres import PostgresMetadataStore
from dittofs.stores.shared import SharedTransactions
from dittofs.stores.sharing import SharedStore
from dittofs.stores.transactions import LocalTransactions
from dittofs.stores.volatile import VolatileTransactions
from dittofs.testing.shared_memory import MemorySharedStore, SharedMemory
from dittofs.testing.transactions_suite import Driver, DurableTransactionsSuite, Opened, TransactionsSuite


@asynccontextmanager
async def local(store: MetadataStore) -> AsyncIterator[Driver]:
    driver = LocalTransactions(store)
    driver.open()
    driver.start(asyncio.get_running_loop())
    yield driver
    await driver.close()


@asynccontextmanager
async def shared(store: SharedStore) -> AsyncIterator[Driver]:
    driver = SharedTransactions(store)
    await driver.open()
    yield driver
    await driver.close()


@asynccontextmanager
async def volatile() -> AsyncIterator[Driver]:
    driver = VolatileTransactions()
    yield driver
    await driver.close()


class TestVolatile(TransactionsSuite):
    @pytest.fixture
    def opened(self) -> Opened:
        return volatile


class TestLocalOverMemory(TransactionsSuite):
    @pytest.fixture
    def opened(self) -> Opened:
        return lambda: local(MemoryMetadataStore())


class TestLocalOverEmbedded(DurableTransactionsSuite):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Opened:
        return lambda: local(EmbeddedMetadataStore(tmp_path / "store"))


class TestSharedOverMemory(DurableTransactionsSuite):
    @pytest.fixture
    def opened(self) -> Opened:
        memory = SharedMemory()
        return lambda: shared(MemorySharedStore(memory))


@pytest.mark.slow
class TestSharedOverPostgres(DurableTransactionsSuite):
    @pytest.fixture
    def opened(self, dsn: str) -> Opened:
        return lambda: shared(PostgresMetadataStore(dsn))
