"""Where simulated hosts live: one event loop in a thread of its own, and loopback addresses that nobody else uses.

All of 127/8 is this machine, so that every host can have an address, and a port 111, of its own.
"""

import asyncio
import itertools
import os
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

import pytest

T = TypeVar("T")

WAIT_SECONDS = 30.0
_numbers = itertools.count(1)


def own_address() -> str:
    """A loopback address that no other process of the tests takes, and this one only once."""
    number, pid = next(_numbers), os.getpid()
    return f"127.{64 + (pid >> 8 ^ number >> 8) % 190}.{pid & 0xFF}.{number % 254 + 1}"


def skip_unless_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: port 111 of a loopback address")


class Network:
    """The thread; a context manager.  Everything in it is done by its loop.  `enter` is called first in the thread: its
    sockets may be made in a network namespace."""

    def __init__(self, enter: Callable[[], None] = lambda: None) -> None:
        self.loop = asyncio.new_event_loop()

        def run() -> None:
            enter()
            self.loop.run_forever()

        self._thread = threading.Thread(target=run, name="simulated hosts", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.run(self._end_answers())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(WAIT_SECONDS)
        self.loop.close()

    async def _end_answers(self) -> None:
        """Those that were to come late, and that nobody waits for any more."""
        late = asyncio.all_tasks() - {asyncio.current_task()}
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there, and wait for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(WAIT_SECONDS)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function there, and wait for it."""

        async def run() -> T:
            return function()

        return self.run(run())


class Recorded(list[T]):
    """What happened, in order: appended by the network's thread, awaited by the test."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def append(self, item: T) -> None:
        with self._changed:
            super().append(item)
            self._changed.notify_all()

    def wait(self, count: int, seconds: float = WAIT_SECONDS) -> T:
        """Until there are so many; the last of them."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while len(self) < count:
                left = deadline - time.monotonic()
                assert left > 0, f"{len(self)} of {count} in {seconds} s: {list(self)[-5:]}"
                self._changed.wait(left)
            return self[count - 1]
