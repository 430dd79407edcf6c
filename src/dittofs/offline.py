"""Work on the data of a server that is not running: `dittofs check`, `dittofs restore`.

Part of the composition, as server.py is: it opens the stores that the settings name.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dittofs.backups.format import BadBackup
from dittofs.backups.restoring import (
    CannotRestore,
    Contents,
    Place,
    examine,
    find_place,
    put_content,
    put_tree,
    remove_content,
)
from dittofs.config import Settings, ShareSettings
from dittofs.files.checking import Report, check
from dittofs.files.records import SHARES
from dittofs.model.errors import FileError
from dittofs.model.ids import FileId, ShareId
from dittofs.shares.registry import new_share
from dittofs.stores.api import ContentStore, StoreError
from dittofs.stores.data_directory import FORMAT_NAME, server_data
from dittofs.stores.making import make_content_store, make_metadata_store
from dittofs.stores.tables import View
from dittofs.stores.transactions import LocalTransactions


def check_data(settings: Settings, *, repair: bool = False) -> Report:
    """Check every store that a share of the settings uses.  Changes nothing unless `repair` is asked for, and then
    only removes content that belongs to no file."""
    total = Report()
    names = dict.fromkeys(share.metadata for share in settings.shares)
    for name in names:
        _check_store(settings, name, total, repair=repair)
    return total


def _check_store(settings: Settings, name: str, total: Report, *, repair: bool) -> None:
    chosen = settings.stores[name]
    store = make_metadata_store(name, chosen.kind, chosen.options, is_read_only=True)
    with contextlib.ExitStack() as opened:
        try:
            store.open()
            opened.callback(store.close)
            transactions = LocalTransactions(store)
            contents = transactions.run(_open_contents, settings, name, opened, repair)
        except StoreError as error:
            total.problems.append(f"stores.{name}: {error}")
            return
        found = transactions.run(check, contents)
        if repair and found.orphans:
            asyncio.run(_remove(found, contents))
    total.add(found)


def _open_contents(
    view: View, settings: Settings, metadata: str, opened: contextlib.ExitStack, repair: bool
) -> dict[ShareId, ContentStore]:
    """The content of each share that was ever served from this metadata store."""
    by_name: dict[str, ContentStore] = {}
    contents: dict[ShareId, ContentStore] = {}
    for share in settings.shares:
        record = view.get(SHARES, share.name.encode("utf-8", "surrogateescape"))
        if share.metadata != metadata or record is None:
            continue
        content = by_name.get(share.content)
        if content is None:
            chosen = settings.stores[share.content]
            content = make_content_store(share.content, chosen.kind, chosen.options, is_read_only=not repair)
            content.open()
            opened.callback(content.close)
            by_name[share.content] = content
        contents[ShareId(record.id)] = content
    return contents


async def _remove(found: Report, contents: dict[ShareId, ContentStore]) -> None:
    for orphan, problem in found.orphans.items():
        await contents[orphan.share].remove(orphan)
        found.problems.remove(problem)
    found.orphans.clear()


class Restored(NamedTuple):
    """What `restore` did."""

    files: int
    content_bytes: int
    made_at: float
    keeps_handles: bool


def restore(settings: Settings, path: Path, name: str) -> Restored:
    """Put a backup into a share that is empty or does not exist yet.  Raises CannotRestore."""
    share = next((share for share in settings.shares if share.name == name), None)
    if share is None:
        raise CannotRestore(f"the configuration has no share {name}: add it, so that it is known where to put it")
    for store in (share.metadata, share.content):
        if (kind := settings.stores[store].kind) in ("memory", "postgres"):
            raise CannotRestore(
                f"stores.{store} is of kind {kind}: restore is for stores that survive and are not shared"
            )
    try:
        found = examine(path)
        with _nobody_serving(settings.server.data):
            return asyncio.run(_restore(settings, share, path, found))
    except BadBackup as error:
        raise CannotRestore(f"{path} cannot be restored: {error}") from None
    except (OSError, StoreError, FileError) as error:
        raise CannotRestore(f"nothing is restored: {error}") from None


@contextlib.contextmanager
def _nobody_serving(data: Path) -> Iterator[None]:
    """Keep servers away from a data directory.  Whether the last one came to its end stays as it is [KEEP-3]."""
    if not (data / FORMAT_NAME).exists():
        made = server_data(data)
        made.acquire()
        made.release()
    held = server_data(data, is_read_only=True)
    held.acquire()
    try:
        yield
    finally:
        held.release()


async def _restore(settings: Settings, share: ShareSettings, path: Path, found: Contents) -> Restored:
    chosen = settings.stores[share.content]
    content = make_content_store(share.content, chosen.kind, chosen.options)
    async with contextlib.AsyncExitStack() as opened:
        content.open()
        opened.callback(content.close)
        chosen = settings.stores[share.metadata]
        transactions = LocalTransactions(make_metadata_store(share.metadata, chosen.kind, chosen.options))
        transactions.open()
        opened.push_async_callback(transactions.close)
        transactions.start(asyncio.get_running_loop())
        header = found.header
        place: Place = transactions.run(
            find_place, content, header, share.name, new_share(), FileId(transactions.next_file_id)
        )
        used = await put_content(path, place, content)
        # The driver reserves what lies behind it in the same batch [NFS-7].
        transactions.next_file_id = max(transactions.next_file_id, header.highest_id + place.moved_by + 1)
        try:
            await transactions.perform(put_tree, path, found, place, share.name, used)
        except BaseException:
            await remove_content(used, place, content)
            raise
    return Restored(header.files, header.content_bytes, header.made_at, place.keeps_handles)
