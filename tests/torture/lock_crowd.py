"""All simulated clients of the lock torture, as the thread that kills the server sees them."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from tests.hosts.network import Network
from tests.hosts.statd import Statd
from tests.torture.lock_clients import FILES, SPANS, Client, Server
from tests.torture.lock_history import NEVER, Run


class Crowd:
    """The clients live in the network's thread; every method here is for another one."""

    def __init__(self, network: Network, server: Server, chance: random.Random, *, clients: int, processes: int):
        self.network = network
        self.server = server
        self.clients = [
            Client(network, server, b"client-%d" % number, random.Random(chance.random()), processes)
            for number in range(1, clients + 1)
        ]
        self._random = chance
        self._background: list[Future[None]] = []
        self._reboot: Future[None] | None = None

    def begin(self, enter: Callable[[Any], Any]) -> None:
        """Boot them all; `enter` sees to it that the hosts end with the test."""
        for client in self.clients:
            enter(client.host)
            Statd(client.host, on_notice=client.noticed)
            self.network.run(client.boot())

    def launched(self) -> None:
        """A run of the server begins."""
        self.server.history.runs.append(Run(time.monotonic()))

    def serving(self, port: int) -> None:
        self.server.port = port

    def killed(self) -> None:
        """To be said before it is: nobody can have been granted anything by a server that is dead."""
        self.server.history.runs[-1].killed = time.monotonic()

    def disturb(self) -> None:
        """Ask about random bytes; now and then let a client crash and reboot."""
        for _ in range(3):
            client = self._random.choice(self.clients)
            self._later(client.probe(self._random.randrange(FILES), *self._random.choice(SPANS)))
        if self._random.random() < 0.15 and (self._reboot is None or self._reboot.done()):
            self._reboot = self._later(self._random.choice(self.clients).reboot())

    def wait_until_open(self, seconds: float) -> None:
        """Until this run of the server is seen to be out of grace."""
        deadline = time.monotonic() + seconds
        while self.server.history.runs[-1].opened == NEVER:
            assert time.monotonic() < deadline, f"still in grace after {seconds} s"
            time.sleep(0.01)  # between two looks

    def abandon(self) -> None:
        """However the test ended: nobody does anything any more."""

        async def cancel() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.network.run(cancel())

    def finish(self, seconds: float) -> None:
        """Every client finishes what it does; then the history is complete."""
        for future in self._background:
            future.result(seconds)
        stopping = [self._later(client.stop()) for client in self.clients]
        for future in stopping:
            future.result(seconds)
        self.server.history.ended = time.monotonic()

    def counts(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for client in self.clients:
            total.update(client.counts)
        return total

    def _later(self, work: Coroutine[Any, Any, None]) -> "Future[None]":
        future = asyncio.run_coroutine_threadsafe(work, self.network.loop)
        self._background.append(future)
        return future
