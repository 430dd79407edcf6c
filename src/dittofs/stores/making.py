"""From a store's kind and options to a store: ours by name, a user's own by its class [STORE-4]."""

import importlib
from collections.abc import Mapping
from typing import Any, cast

from dittofs.stores.api import ContentStore, MetadataStore, StoreError
from dittofs.stores.content.directory import DirectoryContentStore
from dittofs.stores.content.memory import MemoryContentStore
from dittofs.stores.metadata.embedded import EmbeddedMetadataStore
from dittofs.stores.metadata.memory import MemoryMetadataStore
from dittofs.stores.metadata.postgres import PostgresMetadataStore, PostgresSnapshot
from dittofs.stores.shared import SharedTransactions
from dittofs.stores.transactions import LocalTransactions
from dittofs.stores.volatile import VolatileTransactions

Driver = LocalTransactions | SharedTransactions | VolatileTransactions

METADATA_METHODS = (
    *("open", "close", "get", "scan", "apply", "flush", "revert"),
    *("is_volatile", "can_flush_at_once"),
)
CONTENT_METHODS = (
    *(
        "open",
        "close",
        "read",
        "write",
        "truncate",
        "sync",
        "remove",
        "sync_removals",
        "allocated",
        "data_from",
        "usage",
        "contents",
    ),
    "is_volatile",
)


def make_metadata_store(
    name: str, kind: str, options: Mapping[str, Any], *, is_read_only: bool = False
) -> MetadataStore:
    """The store that a share's `metadata` names; not opened yet."""
    match kind:
        case "memory":
            return MemoryMetadataStore()
        case "embedded":
            return EmbeddedMetadataStore(
                options["path"], overlay_bytes=options["overlay_bytes"], is_read_only=is_read_only
            )
        case "postgres":
            assert is_read_only, "only a snapshot of it is a store that answers at once"
            return PostgresSnapshot(options["dsn"], schema=options["schema"])
        case "directory":
            raise StoreError(
                f"stores.{name}: a directory keeps content; metadata needs memory, embedded, postgres or an own class"
            )
        case _:
            return cast(MetadataStore, _own_store(name, kind, options, METADATA_METHODS))


def make_transactions(name: str, kind: str, options: Mapping[str, Any]) -> Driver:
    """The driver of the store that a share's `metadata` names; not opened yet."""
    if kind == "memory":
        return VolatileTransactions()
    cache_records = options.get("cache_records", 100_000)
    if kind == "postgres":
        store = PostgresMetadataStore(options["dsn"], schema=options["schema"], connections=options["connections"])
        return SharedTransactions(store, cache_records=cache_records)
    return LocalTransactions(make_metadata_store(name, kind, options), cache_records=cache_records)


def make_content_store(name: str, kind: str, options: Mapping[str, Any], *, is_read_only: bool = False) -> ContentStore:
    """The store that a share's `content` names; not opened yet."""
    match kind:
        case "memory":
            return MemoryContentStore(capacity=options["capacity_bytes"])
        case "directory":
            return DirectoryContentStore(options["path"], is_read_only=is_read_only)
        case "embedded" | "postgres":
            raise StoreError(f"stores.{name}: {kind} keeps metadata; content needs memory, directory or an own class")
        case _:
            return cast(ContentStore, _own_store(name, kind, options, CONTENT_METHODS))


def forgets_one_half(transactions: Driver, content: ContentStore) -> bool:
    """Whether a restart leaves names without their content, or content without names."""
    return transactions.is_volatile != content.is_volatile


def _own_store(name: str, kind: str, options: Mapping[str, Any], methods: tuple[str, ...]) -> object:
    module_name, _, class_name = kind.partition(":")
    where = f"stores.{name}.kind {kind!r}"
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except ImportError as error:
        raise StoreError(f"{where}: cannot import {module_name}: {error}") from error
    except AttributeError as error:
        raise StoreError(f"{where}: {module_name} has no {class_name}") from error
    missing = [method for method in methods if not hasattr(found, method)]
    if missing:
        raise StoreError(f"{where} is not such a store: it lacks {', '.join(missing)} (see dittofs.stores.api)")
    try:
        return cast(object, found(**options))
    except TypeError as error:
        raise StoreError(f"{where} does not take these options: {error}") from error
