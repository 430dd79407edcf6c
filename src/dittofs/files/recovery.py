"""What a crash, or a removal, left to be done: content to cut and content to reclaim."""

from collections.abc import Sequence

import structlog

from dittofs.files.records import INODES, RECLAIMS, TRUNCATIONS, Reclaim, Truncation
from dittofs.files.volume import Volume
from dittofs.model.ids import FileId
from dittofs.stores.api import StoreError
from dittofs.stores.tables import View

AT_ONCE = 256
FIRST_FILE = FileId(1)
END_OF_FILES = FileId(2**64 - 1)

log = structlog.get_logger()


async def recover(volume: Volume) -> None:
    """Finish, before the first call is served, the cuts that a crash interrupted."""
    start = FIRST_FILE
    while True:
        found = await volume.transactions.perform(_truncations_from, start)
        for file, truncation in found:
            if truncation.share == volume.id:
                content = volume.content_of(file)
                await volume.content.truncate(content, truncation.size)
                await volume.content.sync(content)
                await volume.transactions.perform(_truncated, file, is_relaxed=True)
        if len(found) < AT_ONCE:
            return
        start = FileId(found[-1][0] + 1)


def _truncations_from(view: View, start: FileId) -> Sequence[tuple[FileId, Truncation]]:
    return view.scan(TRUNCATIONS, start, END_OF_FILES, AT_ONCE)


def _truncated(view: View, file: FileId) -> None:
    view.delete(TRUNCATIONS, file)


async def reclaim(volume: Volume) -> int:
    """Remove the content of files that are durably gone; answers with how many there were.  The table is the queue: it
    is bounded by nobody's memory, and survives a crash."""
    removed = 0
    if volume.snapshot is not None:
        return 0  # it may have to be read still; the snapshot ends with a new look
    start = FIRST_FILE
    while True:
        found = await volume.transactions.perform(_reclaims_from, start)
        done = [file for file, record in found if record.share == volume.id and await _remove(volume, file)]
        if done and await _are_gone_for_good(volume):
            await volume.transactions.perform(_reclaimed, done, is_relaxed=True)
            removed += len(done)
        if len(found) < AT_ONCE:
            return removed
        start = FileId(found[-1][0] + 1)


async def _remove(volume: Volume, file: FileId) -> bool:
    if volume.snapshot is not None:
        return False
    # Writes that came before the removal are still inside the gate, and would bring the content back.
    await volume.gates.close(file)
    try:
        await volume.content.remove(volume.content_of(file))
    except StoreError as error:
        log.warning("content is not reclaimed; trying again later", file=file, reason=str(error))
        return False
    finally:
        volume.gates.open(file)
    volume.tails.discard(file)
    volume.dirty.pop(file, None)
    return True


async def _are_gone_for_good(volume: Volume) -> bool:
    """Before that nobody may forget that they are to go: a loss of power could bring them back, for ever."""
    try:
        await volume.content.sync_removals()
    except StoreError as error:
        log.warning("content is not reclaimed for certain; trying again later", reason=str(error))
        return False
    return True


def _reclaims_from(view: View, start: FileId) -> Sequence[tuple[FileId, Reclaim]]:
    return view.scan(RECLAIMS, start, END_OF_FILES, AT_ONCE)


def _reclaimed(view: View, files: Sequence[FileId]) -> None:
    for file in files:
        assert view.get(INODES, file) is None, "only content of files that are gone is reclaimed"
        view.delete(RECLAIMS, file)
