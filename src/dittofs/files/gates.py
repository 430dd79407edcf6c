"""Who may work on a file's content: many who write, or one who cuts."""

import asyncio

from dittofs.model.ids import FileId


class Gates:
    """A gate per file, which exists only while somebody is inside.

    Whoever closes a gate waits until all are out; from then on, until it is opened, nobody gets in.
    """

    __slots__ = ("_closed", "_drained", "_inside")

    def __init__(self) -> None:
        self._inside: dict[FileId, int] = {}
        self._closed: dict[FileId, asyncio.Future[None]] = {}
        self._drained: dict[FileId, asyncio.Future[None]] = {}

    def is_closed(self, file: FileId) -> bool:
        """Whether somebody is alone inside, or waits to be."""
        return file in self._closed

    async def enter(self, file: FileId) -> None:
        """Get in beside others."""
        while file in self._closed:
            await asyncio.shield(self._closed[file])
        self._inside[file] = self._inside.get(file, 0) + 1

    def leave(self, file: FileId) -> None:
        left = self._inside[file] - 1
        if left:
            self._inside[file] = left
            return
        del self._inside[file]
        if file in self._drained:
            self._drained.pop(file).set_result(None)

    async def close(self, file: FileId) -> None:
        """Get in alone."""
        while file in self._closed:
            await asyncio.shield(self._closed[file])
        loop = asyncio.get_running_loop()
        self._closed[file] = loop.create_future()
        if file not in self._inside:
            return
        drained = self._drained[file] = loop.create_future()
        try:
            await drained
        except asyncio.CancelledError:
            self._drained.pop(file, None)
            self.open(file)
            raise

    def open(self, file: FileId) -> None:
        """Let the others in again."""
        self._closed.pop(file).set_result(None)
