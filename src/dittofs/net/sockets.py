"""All sockets of one port, TCP and UDP, and what serves them."""

import asyncio
import time
from collections.abc import Mapping

from dittofs.net.limits import TcpCounters, TcpLimits
from dittofs.net.listening import Bound
from dittofs.net.tcp import TcpService
from dittofs.net.udp import UdpServer
from dittofs.rpc.dispatch import Dispatcher


class ServedSockets:
    """The sockets of one port, with what serves them."""

    def __init__(self, bound: Bound, dispatcher: Dispatcher, limits: TcpLimits):
        self._bound = bound
        self.dispatcher = dispatcher
        self._limits = limits
        self._service = TcpService(dispatcher, limits, time.monotonic)
        self._servers: list[asyncio.Server] = []
        self._datagrams: list[UdpServer] = []
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def tcp(self) -> TcpCounters:
        return self._service.counters

    @property
    def connections(self) -> int:
        return len(self._service.connections)

    @property
    def by_address(self) -> Mapping[str, int]:
        return self._service.by_address

    def datagram_bytes(self) -> tuple[int, int]:
        """Received and sent."""
        return sum(one.bytes_received for one in self._datagrams), sum(one.bytes_sent for one in self._datagrams)

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        for stream in self._bound.streams:
            self._servers.append(await loop.create_server(self._service, sock=stream, backlog=1024))
        max_calls = self._limits.max_calls_per_connection
        self._datagrams = [
            UdpServer(bound, self.dispatcher, loop, max_calls=max_calls) for bound in self._bound.datagrams
        ]
        self._sweep_again()

    def _sweep_again(self) -> None:
        self._service.sweep()
        self._sweep = asyncio.get_running_loop().call_later(self._limits.sweep_seconds, self._sweep_again)

    def stop_listening(self) -> None:
        for server in self._servers:
            server.close()
        for datagrams in self._datagrams:
            datagrams.close()
        self._datagrams = []

    async def close(self) -> None:
        self.stop_listening()
        if self._sweep is not None:
            self._sweep.cancel()
        self._service.close()
