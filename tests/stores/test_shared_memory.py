"""The store of the driver's own tests is one itself."""

from collections.abc import Callable

import pytest

from dittofs.stores.sharing import SharedStore
from dittofs.testing.shared_memory import MemorySharedStore, SharedMemory
from dittofs.testing.shared_suite import SharedStoreSuite


class TestMemorySharedStore(SharedStoreSuite):
    @pytest.fixture
    def make_store(self) -> Callable[[], SharedStore]:
        memory = SharedMemory()
        return lambda: MemorySharedStore(memory)
