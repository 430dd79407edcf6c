"""Port 111: our own port mapper if it can be had, else the host's, else nobody [NFS-3].

Part of the composition: it joins the port mapper's table, the sockets, and calls to a host's rpcbind.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from dittofs.cli.mounting import PortMapper
from dittofs.net import outbound
from dittofs.net.listening import Bound, CannotListen, bind
from dittofs.protocols.portmap.addresses import NetworkId, from_universal
from dittofs.protocols.portmap.portmapper import PORTMAP2
from dittofs.protocols.portmap.registering import DUMP, SET, UNSET, Registration, registrations
from dittofs.protocols.portmap.registry import Registry
from dittofs.protocols.portmap.rpcbind import RPCBIND3, RPCBIND4
from dittofs.protocols.portmap.services import PortmapServices
from dittofs.rpc.calling import CallFailed, Exchange
from dittofs.rpc.dispatch import Dispatcher
from dittofs.rpc.program import Program
from dittofs.rpc.replay import ReplayCache

log = structlog.get_logger()

PORTMAP_PORT = 111
RPCBIND_SOCKET = "/run/rpcbind.sock"
"""Where rpcbind takes entries from any user of this host; over the network it wants a port below 1024."""

RPCBIND_SECONDS = 2.0
RPCBIND_SECONDS_IN_ALL = 5.0
"""A hung or slow rpcbind must stall neither the start nor the stop."""

NEEDED = (100003, 100005)
"""Without NFS and MOUNT nothing can be mounted; without the rest it can, though without locks."""

Serve = Callable[[Bound, Dispatcher], Awaitable[None]]


@dataclass(slots=True)
class PortMapping:
    """Who answers on port 111 for us, and how to undo it."""

    port_mapper: PortMapper
    why_not: str = ""
    registered: list[Registration] = field(default_factory=list)
    missing: frozenset[int] = frozenset()
    """Programs that clients will not find, because the host's rpcbind names somebody else's."""

    async def withdraw(self) -> None:
        """Take our entries out of the host's rpcbind: each by itself, so that no other's go with them."""
        rpcbind = _Rpcbind()
        try:
            for registration in self.registered:
                await rpcbind.call(UNSET, registration.entry)
        except CallFailed as error:
            log.warning("rpcbind keeps entries of ours", reason=str(error))
        self.registered.clear()


async def announce(
    mode: str, addresses: Sequence[str], port: int, programs: Sequence[Program], *, with_udp: bool, serve: Serve
) -> PortMapping:
    """Let clients find the programs on `port`.  Raises CannotListen if the mode leaves no other way."""
    if mode == "off":
        return PortMapping(PortMapper.NOBODY, "portmap is off")
    why_not = ""
    if mode in ("auto", "embedded"):
        try:
            await _serve_own(addresses, port, programs, with_udp=with_udp, serve=serve)
            return PortMapping(PortMapper.OURS)
        except CannotListen as error:
            if mode == "embedded":
                raise
            why_not = str(error)
    try:
        return await _register(registrations(programs, networks_of(addresses, with_udp=with_udp), port))
    except CallFailed as error:
        if mode == "host":
            raise CannotListen(f"no rpcbind of this host can be used: {error}") from error
        why_not = f"{why_not}; no rpcbind either: {error}" if why_not else str(error)
    log.warning("nobody answers on port 111 for us", reason=why_not)
    return PortMapping(PortMapper.NOBODY, why_not)


def networks_of(addresses: Sequence[str], *, with_udp: bool) -> list[NetworkId]:
    families = sorted({6 if ":" in address else 4 for address in addresses})
    return [NetworkId(kind, family) for kind in (("tcp", "udp") if with_udp else ("tcp",)) for family in families]


async def _register(wanted: Sequence[Registration]) -> PortMapping:
    """Put our entries into the host's rpcbind.  One left over from a server that died is replaced; one of somebody
    else who answers (the kernel's own lockd) is not."""
    rpcbind = _Rpcbind()
    done: list[Registration] = []
    missing: set[int] = set()
    try:
        for registration in wanted:
            if await rpcbind.take(registration):
                done.append(registration)
                continue
            program = registration.program
            name = f"{program.name} version {program.version} ({registration.network.text()})"
            if program.number in NEEDED:
                raise CallFailed(f"rpcbind names somebody else's {name}")
            log.warning("rpcbind names somebody else's program, clients will not find ours", program=name)
            missing.add(program.number)
    except CallFailed:
        await PortMapping(PortMapper.HOST, registered=done).withdraw()
        raise
    return PortMapping(PortMapper.HOST, registered=done, missing=frozenset(missing))


class _Rpcbind:
    """The rpcbind of this host, for a few seconds in all."""

    def __init__(self) -> None:
        self._deadline = time.monotonic() + RPCBIND_SECONDS_IN_ALL

    async def call(self, exchange: Exchange, arguments: Any = None) -> Any:
        return await outbound.call(
            exchange,
            arguments,
            address=RPCBIND_SOCKET,
            port=0,
            transport="local",
            timeout_seconds=min(RPCBIND_SECONDS, max(self._deadline - time.monotonic(), 0.001)),
        )

    async def take(self, registration: Registration) -> bool:
        """Put in an entry; False if somebody has it and is there."""
        if await self.call(SET, registration.entry):
            return True
        if await self._is_alive(registration):
            return False
        await self.call(UNSET, registration.entry)
        return bool(await self.call(SET, registration.entry))

    async def _is_alive(self, registration: Registration) -> bool:
        """Whether the program answers at the place that rpcbind names."""
        program, network = registration.program, registration.network
        for entry in await self.call(DUMP):
            if (entry.r_prog, entry.r_vers, entry.r_netid) == registration.entry_key:
                break
        else:
            return False
        try:
            _, port = from_universal(entry.r_addr.decode("ascii", "replace"))
            await outbound.call(
                Exchange("NULL", program.number, program.version, 0),
                address="::1" if network.family == 6 else "127.0.0.1",
                port=port,
                transport=network.transport,
                timeout_seconds=RPCBIND_SECONDS / 2,
            )
        except (ValueError, CallFailed):
            return False
        return True


async def _serve_own(
    addresses: Sequence[str], port: int, programs: Sequence[Program], *, with_udp: bool, serve: Serve
) -> None:
    registry = Registry()
    services = PortmapServices(registry, time.time)
    dispatcher = Dispatcher(replay=ReplayCache(max_bytes=65_536, max_age_seconds=60.0), clock=time.monotonic)
    for program in (PORTMAP2, RPCBIND3, RPCBIND4):
        dispatcher.add(program, services)
    for network in networks_of(addresses, with_udp=with_udp):
        for program in programs:
            registry.announce(program.number, program.version, network, port)
        for program in (PORTMAP2, RPCBIND3, RPCBIND4):
            registry.announce(program.number, program.version, network, PORTMAP_PORT)
    await serve(bind(addresses, PORTMAP_PORT, with_udp=True), dispatcher)
