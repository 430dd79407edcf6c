"""Reaching a program of a client through the client's own port mapper [NLM-5] [NSM-4].

Part of the composition: it joins the questions of the port mapper's protocol and the sockets.  Protocols that call
clients back are given these functions.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from dittofs.net import outbound
from dittofs.net.addresses import is_own
from dittofs.protocols.portmap.asking import answered_port, questions
from dittofs.rpc.calling import (
    CallFailed,
    Exchange,
    ProgramUnavailable,
    Refused,
    Unreachable,
    VersionUnavailable,
    auth_sys,
)

PORTMAP_PORT = 111
DATAGRAM_SHARE = 0.4
"""The part of the time that is spent on datagrams before TCP is tried: they may be lost or filtered without a word."""

PLACES_KEPT = 10_000
CREDENTIAL = auth_sys(uid=0, gid=0)


class Place(NamedTuple):
    """Where a program of another host listens, and when we were told so."""

    transport: str
    port: int
    asked_at: float


class OwnProgram(CallFailed):
    """The host's port mapper names a port that is ours: the call would come back to us [NFS-3]."""


class RemotePrograms:
    """Calls to programs of clients, each on a fresh connection; where a program listens is remembered, and asked again
    when it is not there any more.  Nothing is ever sent to another address than the one that is given."""

    def __init__(self, own_port: int):
        self._own_port = own_port
        self._places: dict[tuple[str, int, int, tuple[str, ...]], Place] = {}

    async def call(
        self,
        exchange: Exchange,
        arguments: Any,
        *,
        address: str,
        local_address: str | None,
        timeout_seconds: float,
        transports: Sequence[str] = ("tcp", "udp"),
    ) -> Any:
        """Perform one exchange over the first of the transports that the host offers, all within the time given.

        Raises CallFailed: Refused and ProgramUnavailable if there is nobody to be asked, Unreachable if nothing was
        sent in time, NoReply if it may have arrived.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        key = (address, exchange.program, exchange.version, tuple(transports))
        for place in (self._places.pop(key, None), None):
            if place is None:
                place = await self._find(key, local_address, deadline)
                is_fresh = True
            else:
                is_fresh = False
            try:
                result = await outbound.call(
                    exchange,
                    arguments,
                    address=address,
                    port=place.port,
                    transport=place.transport,
                    timeout_seconds=_remaining(deadline, exchange, address),
                    local_address=local_address,
                    credential=CREDENTIAL,
                )
            except (Refused, ProgramUnavailable, VersionUnavailable):
                if is_fresh:
                    raise
            else:
                self._remember(key, place)
                return result
        raise AssertionError("a fresh place either answers or fails")

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
        """Where a program listens, as far as we know it, or else as the host says now.  Raises CallFailed."""
        loop = asyncio.get_running_loop()
        key = (address, program, version, (transport,))
        place = self._places.get(key)
        if place is None or loop.time() - place.asked_at > max_age_seconds:
            place = await self._find(key, local_address, loop.time() + timeout_seconds)
            self._remember(key, place)
        return place.port

    def _remember(self, key: tuple[str, int, int, tuple[str, ...]], place: Place) -> None:
        if len(self._places) >= PLACES_KEPT:
            del self._places[next(iter(self._places))]
        self._places[key] = place

    async def _find(
        self, key: tuple[str, int, int, tuple[str, ...]], local_address: str | None, deadline: float
    ) -> Place:
        address, program, version, transports = key
        missing: ProgramUnavailable | None = None
        for transport in transports:
            try:
                port = await find_port(
                    program,
                    version,
                    transport,
                    address=address,
                    local_address=local_address,
                    timeout_seconds=_remaining(deadline, None, address),
                )
            except ProgramUnavailable as error:
                missing = missing or error
                continue
            if port == self._own_port and is_own(address):
                raise OwnProgram(f"the port mapper of {address} names our own port {port}")
            return Place(transport, port, asyncio.get_running_loop().time())
        assert missing is not None, "every transport was asked for"
        raise missing


def _remaining(deadline: float, exchange: Exchange | None, address: str) -> float:
    remaining = deadline - asyncio.get_running_loop().time()
    if remaining <= 0:
        what = exchange.name if exchange else "port mapper"
        raise Unreachable(f"{what}: no time is left to ask {address}")
    return remaining


async def find_port(
    program: int,
    version: int,
    transport: str,
    *,
    address: str,
    local_address: str | None = None,
    timeout_seconds: float,
) -> int:
    """Where a program of a host listens for TCP or UDP; its port mapper is asked over UDP, then over TCP.

    Raises ProgramUnavailable if the host says that it has no such program, else CallFailed.
    """
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    unspoken: CallFailed | None = None
    for exchange, arguments in questions(address, program, version, transport):
        try:
            answer = await _ask_port_mapper(exchange, arguments, address, local_address, deadline)
        except VersionUnavailable as error:
            unspoken = unspoken or error
            continue
        port = answered_port(exchange, answer)
        if not port:
            raise ProgramUnavailable(f"the port mapper of {address} knows no program {program} over {transport}")
        return port
    assert unspoken is not None, "there was a question"
    raise unspoken


async def _ask_port_mapper(
    exchange: Exchange, arguments: Any, address: str, local_address: str | None, deadline: float
) -> Any:
    """Over UDP, then over TCP.  Raises CallFailed."""
    loop = asyncio.get_running_loop()
    left = deadline - loop.time()
    for way, seconds in (("udp", left * DATAGRAM_SHARE), ("tcp", left)):
        try:
            return await outbound.call(
                exchange,
                arguments,
                address=address,
                port=PORTMAP_PORT,
                transport=way,
                timeout_seconds=max(min(seconds, deadline - loop.time()), 0.05),
                local_address=local_address,
            )
        except VersionUnavailable:
            raise
        except CallFailed:
            if way == "tcp":
                raise
    raise AssertionError("TCP is the last way")
