"""The two tasks of a volume that is served: writing back what nobody committed, and reclaiming content."""

import asyncio

import structlog

from dittofs.files import io, recovery
from dittofs.files.volume import Volume
from dittofs.model.errors import FileError
from dittofs.model.ids import FileId

WRITE_BACK_SECONDS = 5.0
RELAXED_WRITE_BACK_SECONDS = 1.0
RECLAIM_AGAIN_SECONDS = 30.0
"""How soon content that could not be removed is tried again."""

RECLAIM_TOGETHER_SECONDS = 0.02
"""So long a removal waits for others: alone, reclaiming what it leaves costs twice as much as the REMOVE itself."""

SETTLED_AT_ONCE = 32

log = structlog.get_logger()


class Upkeep:
    """Started and stopped with the server."""

    def __init__(self, volume: Volume, *, write_back_seconds: float | None = None):
        self._volume = volume
        default = RELAXED_WRITE_BACK_SECONDS if volume.is_relaxed else WRITE_BACK_SECONDS
        self._write_back_seconds = default if write_back_seconds is None else write_back_seconds
        self._removal = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, with what an earlier process left to be reclaimed."""
        self._volume.on_removed = self._removal.set
        self._removal.set()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._write_back()), loop.create_task(self._reclaim())]

    async def stop(self) -> None:
        """End both tasks, then make everything durable."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        self._volume.on_removed = lambda: None
        await self._settle(list(self._volume.dirty))

    async def _write_back(self) -> None:
        while True:
            await asyncio.sleep(self._write_back_seconds)
            await self._settle(list(self._volume.dirty))

    async def _settle(self, files: list[FileId]) -> None:
        for start in range(0, len(files), SETTLED_AT_ONCE):
            # Side by side, so that they share flushes.
            some = files[start : start + SETTLED_AT_ONCE]
            results = await asyncio.gather(*[io.settle(self._volume, file) for file in some], return_exceptions=True)
            for file, result in zip(some, results, strict=True):
                if isinstance(result, FileError):
                    log.warning("a file is not written back; trying again later", file=file, reason=str(result))
                elif isinstance(result, Exception):
                    log.error("writing back a file failed", file=file, exc_info=result)

    async def _reclaim(self) -> None:
        while True:
            self._removal.clear()
            try:
                await recovery.reclaim(self._volume)
            except FileError as error:
                log.warning("reclaiming content failed; trying again later", reason=str(error))
            except Exception:  # the top of a background task
                log.exception("reclaiming content failed; trying again later")
            try:
                await asyncio.wait_for(self._removal.wait(), RECLAIM_AGAIN_SECONDS)
            except TimeoutError:
                continue
            await asyncio.sleep(RECLAIM_TOGETHER_SECONDS)
