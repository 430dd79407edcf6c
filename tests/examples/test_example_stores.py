"""[STORE-4] The example of a user's own store is held to the same contract as ours."""

import importlib.util
from pathlib import Path
from types import ModuleType

from dittofs.stores.api import ContentStore, MetadataStore
from dittofs.testing.content_suite import DurableContentStoreSuite
from dittofs.testing.metadata_suite import DurableMetadataStoreSuite

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SqliteMetadataStore = example("sqlite_metadata").SqliteMetadataStore
SqliteContentStore = example("sqlite_content").SqliteContentStore


class TestSqliteMetadataStore(DurableMetadataStoreSuite):
    model_examples = 10

    def make_store(self, path: Path) -> MetadataStore:
        return SqliteMetadataStore(path)


class TestSqliteContentStore(DurableContentStoreSuite):
    model_examples = 10

    def make_store(self, path: Path) -> ContentStore:
        return SqliteContentStore(path)
