"""Answers to the `_MSG` procedures: calls of ours to the lock service of the client that asked.

The client's own port mapper says where that is.  Over UDP the call leaves from the socket that was asked; over TCP it
goes back over the client's connection where no port is to be had.  It may get lost like any datagram: the client then
asks again.
"""

import asyncio
import itertools
from typing import Any, Protocol

import structlog

from dittofs.rpc.calling import CallFailed, Exchange, NoReply
from dittofs.rpc.program import Peer

log = structlog.get_logger()

MAX_AT_ONCE = 1024
ANSWER_SECONDS = 5.0
PORT_SECONDS = 10.0
"""How long a port is believed in: over UDP nobody says that it is wrong."""


class Remote(Protocol):
    """Programs of clients, found through the clients' port mappers."""

    async def call(
        self,
        exchange: Exchange,
        arguments: Any,
        *,
        address: str,
        local_address: str | None,
        timeout_seconds: float,
    ) -> Any:
        """Perform one exchange.  Raises CallFailed."""

    async def port_of(
        self,
        program: int,
        version: int,
        transport: str,
        *,
        address: str,
        local_address: str | None,
        timeout_seconds: float,
        max_age_seconds: float,
    ) -> int:
        """Where a program listens.  Raises CallFailed."""


class Answering:
    """All answers under way."""

    def __init__(self, remote: Remote):
        self._remote = remote
        self._tasks: set[asyncio.Task[None]] = set()
        self._xids = itertools.count(1)
        self.dropped = 0

    def send(self, peer: Peer, exchange: Exchange, result: Any) -> None:
        """Have an answer sent."""
        if len(self._tasks) >= MAX_AT_ONCE:
            self.dropped += 1
            return
        task = asyncio.ensure_future(self._send(peer, exchange, result))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _send(self, peer: Peer, exchange: Exchange, result: Any) -> None:
        try:
            if peer.transport == "udp":
                await self._send_datagram(peer, exchange, result)
            else:
                await self._remote.call(
                    exchange,
                    result,
                    address=peer.address,
                    local_address=peer.local_address,
                    timeout_seconds=ANSWER_SECONDS,
                )
        except NoReply:
            pass  # it may have arrived, and some clients never reply to an answer
        except CallFailed as error:
            if peer.transport != "udp" and self._send_back(peer, exchange, result):
                return
            self.dropped += 1
            log.info("answer not delivered", client=peer.address, procedure=exchange.name, reason=str(error))

    async def _send_datagram(self, peer: Peer, exchange: Exchange, result: Any) -> None:
        port = await self._remote.port_of(
            exchange.program,
            exchange.version,
            "udp",
            address=peer.address,
            local_address=peer.local_address,
            timeout_seconds=ANSWER_SECONDS,
            max_age_seconds=PORT_SECONDS,
        )
        peer.send(self._record(exchange, result), port)

    def _send_back(self, peer: Peer, exchange: Exchange, result: Any) -> bool:
        return peer.send(self._record(exchange, result), peer.port)

    def _record(self, exchange: Exchange, result: Any) -> bytes:
        return exchange.encode(next(self._xids) & 0xFFFF_FFFF, result)
