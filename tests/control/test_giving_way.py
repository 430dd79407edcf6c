"""Whoever looks at 100,000 locks does not hold the file service up: the control plane works a little at a time."""

import asyncio
import gc
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dittofs.config import Settings
from dittofs.control.endpoints import Asked
from dittofs.control.plane import Plane
from dittofs.control.routes.locks import LockFilter, find_lock, list_locks
from dittofs.loading import load
from dittofs.locks.outcomes import Granted
from dittofs.locks.spans import Span
from dittofs.locks.values import Acquire, Mode, Owner
from dittofs.model.ids import ClientId, FileId, FileRef, ShareName
from dittofs.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LOCKS = 100_000
FILES = 1_000
TURN_SECONDS = 0.020
"""Of CPU time, which does not depend on what else the machine does."""

CONFIG = """
[server]
listen = ["127.0.0.1"]
port = 0
portmap = "off"
[locks]
max_total = 200000
max_per_client = 200000
[api]
listen = ""
[metrics]
listen = ""
[stores.meta]
kind = "memory"
[stores.files]
kind = "memory"
"""


def settings(directory: Path) -> Settings:
    file = directory / "dittofs.toml"
    file.write_text(CONFIG)
    return load(file, environment={"DITTOFS_SERVER_DATA": str(directory / "data")})


class Heart:
    """Beats once a turn of the loop; `longest` is the CPU time that somebody took between two beats."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.beats = 0

    async def beat(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.longest, last = max(self.longest, now - last), now
            self.beats += 1


async def take_locks(server: Server) -> None:
    owners = [Owner(id=f"nlm:host:{number}:00", client=ClientId("10.0.0.1 host"), svid=number) for number in range(50)]
    for number in range(LOCKS):
        file = FileRef(ShareName("/export"), FileId(number % FILES + 1000))
        start = number // FILES * 10
        request = Acquire(file, owners[number % 50], Span(start, start + 5), Mode.EXCLUSIVE)
        outcome, _ = await server.locks.acquire(request)
        assert isinstance(outcome, Granted)


async def list_all(plane: Plane) -> int:
    found, cursor = 0, ""
    while True:
        asked = Asked(path={}, query=LockFilter(limit=1000, cursor=cursor), body=None, actor="test")
        page: Any = await list_locks(plane, asked)
        msgspec.json.encode(page)
        found += len(page.locks)
        if page.next is None:
            return found
        cursor = page.next


def test_listing_a_hundred_thousand_locks_gives_way(tmp_path: Path) -> None:
    async def look() -> None:
        server = Server(settings(tmp_path))
        await server.start()
        try:
            await take_locks(server)
            assert server.control is not None
            # The memory store sorts its keys at the first scan after many writes: its cost, and not that of listing.
            await list_all(server.control.plane)
            gc.collect()
            gc.freeze()  # as `serve` does
            heart = Heart()
            beating = asyncio.create_task(heart.beat())
            assert await list_all(server.control.plane) == LOCKS
            lock = await find_lock(server.control.plane, str(LOCKS - 10))
            assert lock.id == LOCKS - 10
            beating.cancel()
            print(f"longest turn {heart.longest * 1000:.1f} ms of {heart.beats}")
            assert heart.longest < TURN_SECONDS
        finally:
            gc.unfreeze()
            await server.stop()

    asyncio.run(look())
