"""File ids of one process, reserved in the store before they are used [NFS-7]."""

import asyncio
from collections import deque

import structlog

from dittofs.model.errors import TryLater
from dittofs.model.ids import FileId
from dittofs.stores.api import StoreError
from dittofs.stores.sharing import SharedStore

IDS_AHEAD = 65_536

log = structlog.get_logger()


class FileIds:
    """A range of ids; the next one is reserved when half of it is used."""

    def __init__(self, store: SharedStore):
        self._store = store
        self._ranges: deque[range] = deque()
        self._reserving: asyncio.Task[None] | None = None

    async def reserve(self) -> None:
        first = await self._store.reserve_file_ids(IDS_AHEAD)
        self._ranges.append(range(first, first + IDS_AHEAD))

    def next(self) -> FileId:
        """Raises TryLater if the store was away for so long that none is left."""
        ranges = self._ranges
        while ranges and not ranges[0]:
            ranges.popleft()
        if not ranges or (len(ranges) == 1 and len(ranges[0]) < IDS_AHEAD // 2):
            self._reserve_soon()
        if not ranges:
            raise TryLater("no file ids are left until the metadata store answers")
        current = ranges[0]
        ranges[0] = current[1:]
        return FileId(current[0])

    def stop(self) -> None:
        if self._reserving is not None:
            self._reserving.cancel()

    def _reserve_soon(self) -> None:
        if self._reserving is None or self._reserving.done():
            self._reserving = asyncio.get_running_loop().create_task(self._reserve())

    async def _reserve(self) -> None:
        try:
            await self.reserve()
        except StoreError as error:
            log.warning("no file ids could be reserved; trying again with the next file", reason=str(error))
