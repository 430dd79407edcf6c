"""Server-sent events: the status once a second, so that a page knows when to ask again for what it shows."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
from starlette.responses import StreamingResponse

from dittofs.control.endpoints import Refused
from dittofs.control.plane import Plane
from dittofs.control.routes.server import status_of

SECONDS = 1.0
STREAMS_MAX = 50


class EventStreams:
    """All streams of one server; they end when it stops, and not by being cut off."""

    def __init__(self) -> None:
        self._open = 0
        self._stopped = asyncio.Event()

    def close(self) -> None:
        self._stopped.set()

    def open(self, plane: Plane) -> StreamingResponse:
        if self._open >= STREAMS_MAX:
            raise Refused(503, f"{STREAMS_MAX} streams of events are open already")
        return StreamingResponse(self._statuses(plane), media_type="text/event-stream")

    async def _statuses(self, plane: Plane) -> AsyncIterator[bytes]:
        self._open += 1
        try:
            yield b"retry: 2000\n\n"
            while not self._stopped.is_set():
                yield b"event: status\ndata: " + msgspec.json.encode(status_of(plane)) + b"\n\n"
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopped.wait(), SECONDS)
        finally:
            self._open -= 1
