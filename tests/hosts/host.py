"""A simulated client host: its own address, a port mapper on its port 111, and a lock service that is called back.

    with Network() as network, Host(network, b"host-a") as host:
        nlm = host.nlm(server.port)
        assert nlm.lock(owner, where, block=True) is BLOCKED
        grant = host.grants.wait(1)

What it says to NLM_GRANTED is decided by `on_granted`, which tests replace: a status, or one of the ways to be silent.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from dittofs.client.nfs3 import Nfs3Client
from dittofs.client.nlm import NUMBERS, NlmClient
from dittofs.client.transports import TcpTransport, Transport, UdpTransport
from dittofs.net.limits import TcpLimits
from dittofs.net.listening import Bound, CannotListen, bind
from dittofs.net.tcp import TcpService
from dittofs.net.udp import UdpServer
from dittofs.protocols.nlm.dialects import DIALECTS, NLM4, Dialect
from dittofs.protocols.nlm.types import PROGRAM as NLM
from dittofs.protocols.nlm.types import nlm4_stats
from dittofs.protocols.portmap.addresses import NetworkId
from dittofs.protocols.portmap.portmapper import PORTMAP2
from dittofs.protocols.portmap.registry import Registry
from dittofs.protocols.portmap.rpcbind import RPCBIND3, RPCBIND4
from dittofs.protocols.portmap.services import PortmapServices
from dittofs.rpc.calling import auth_sys
from dittofs.rpc.dispatch import Deliver, Dispatcher
from dittofs.rpc.messages import SUCCESS_TAIL, opaque_auth
from dittofs.rpc.program import Call, NoAnswer, Peer, Program
from dittofs.rpc.remembering import Answers
from dittofs.rpc.replay import ReplayCache
from dittofs.xdr.types import Chunks, encoded
from tests.hosts.network import WAIT_SECONDS, Network, Recorded, own_address

GRANTED, DENIED = nlm4_stats.NLM4_GRANTED, nlm4_stats.NLM4_DENIED
ROOT = auth_sys(uid=0, gid=0)


@dataclass(frozen=True, slots=True)
class Grant:
    """One NLM_GRANTED as it arrived."""

    at: float
    dialect: Dialect
    args: Any
    peer: Peer
    xid: bytes

    @property
    def lock(self) -> Any:
        return self.args.alock


@dataclass(frozen=True, slots=True)
class Response:
    """One `_RES` call as it arrived."""

    name: str
    result: Any
    peer: Peer


class Late:
    """The answer to a callback comes after so many seconds."""

    def __init__(self, seconds: float, status: nlm4_stats = GRANTED):
        self.seconds = seconds
        self.status = status


class Broken(Exception):
    """The host fails: its answer is SYSTEM_ERR."""


OnGranted = Callable[[Grant], nlm4_stats | Late]


def never(grant: Grant) -> nlm4_stats:
    """No answer at all."""
    raise NoAnswer


def fails(grant: Grant) -> nlm4_stats:
    raise Broken


def twice(grant: Grant) -> nlm4_stats:
    """The same answer two times."""
    result = grant.dialect.res(grant.args.cookie, grant.dialect.statuses[GRANTED])
    grant.peer.send(grant.xid + SUCCESS_TAIL + encoded(grant.dialect.res, result), grant.peer.port)
    return GRANTED


class _Served:
    """The sockets of one port of a host."""

    def __init__(self, bound: Bound, dispatcher: Dispatcher):
        self.bound = bound
        self._service = TcpService(dispatcher, TcpLimits(), time.monotonic)
        self._dispatcher = dispatcher
        self._servers: list[asyncio.Server] = []
        self._datagrams: list[UdpServer] = []

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        for stream in self.bound.streams:
            self._servers.append(await loop.create_server(self._service, sock=stream, backlog=1024))
        self._datagrams = [UdpServer(bound, self._dispatcher, loop) for bound in self.bound.datagrams]

    def close(self) -> None:
        for server in self._servers:
            server.close()
        for datagrams in self._datagrams:
            datagrams.close()
        self._service.close()


class _Deaf(Dispatcher):
    """A dispatcher that can stop answering, as a host does that is cut off."""

    is_deaf = False

    def serve(
        self, record: bytes | memoryview, peer: Peer, deliver: Deliver, answers: Answers | None = None
    ) -> Chunks | None:
        return None if self.is_deaf else super().serve(record, peer, deliver, answers)


class Host:
    """A context manager: the host is up within the block, unless it dies before.

    `transports` is what its lock service offers, `has_port_mapper` whether anybody answers on its port 111,
    in the versions `port_mappers`.
    """

    def __init__(
        self,
        network: Network,
        name: bytes,
        *,
        address: str | None = None,
        transports: tuple[str, ...] = ("tcp", "udp"),
        has_port_mapper: bool = True,
        port_mappers: tuple[Program, ...] = (PORTMAP2, RPCBIND3, RPCBIND4),
        on_granted: OnGranted = lambda grant: GRANTED,
    ):
        self.network = network
        self.name = name
        self.address = address or own_address()
        self.on_granted = on_granted
        self.grants: Recorded[Grant] = Recorded()
        self.responses: Recorded[Response] = Recorded()
        self.registry = Registry()
        self.lock_port = 0
        self._transports = transports
        self._has_port_mapper = has_port_mapper
        self._port_mappers = port_mappers
        self._served: list[_Served] = []
        self._dispatchers: list[_Deaf] = []
        self._calls: list[Transport] = []

    def __enter__(self) -> Self:
        self.network.run(self._start())
        return self

    def __exit__(self, *exception: object) -> None:
        self.die()
        for transport in self._calls:
            transport.close()

    # Life.

    def die(self) -> None:
        """Everything that listens is gone: connections are refused."""
        self.network.call(self._close)

    def cut_off(self) -> None:
        """From now on nothing is answered, on any port."""
        for dispatcher in self._dispatchers:
            dispatcher.is_deaf = True

    def reconnect(self) -> None:
        for dispatcher in self._dispatchers:
            dispatcher.is_deaf = False

    def restart_lock_service(self) -> None:
        """On another port, as after a reboot."""
        self.network.run(self._restart_lock_service())

    def serve(self, programs: list[Program], services: Any, *, transports: tuple[str, ...] = ("tcp", "udp")) -> int:
        """Serve other programs as well, such as a status monitor; announced to the port mapper.  The port."""
        return self.network.run(self._serve(programs, services, transports))

    async def _start(self) -> None:
        if self._has_port_mapper:
            dispatcher = self._dispatcher([*self._port_mappers], PortmapServices(self.registry, time.time))
            await self._listen(await _bind_patiently(self.address, 111), dispatcher)
        await self._start_lock_service()

    async def _start_lock_service(self) -> None:
        self.lock_port = await self._serve(_lock_programs(), self, self._transports)

    async def _restart_lock_service(self) -> None:
        self._served.pop().close()
        await self._start_lock_service()

    async def _serve(self, programs: list[Program], services: Any, transports: tuple[str, ...]) -> int:
        bound = bind([self.address], 0, with_udp=True)
        await self._listen(bound, self._dispatcher(programs, services))
        family = 6 if ":" in self.address else 4
        for program in programs:
            for transport in transports:
                self.registry.announce(program.number, program.version, NetworkId(transport, family), bound.port)
        return bound.port

    def _dispatcher(self, programs: list[Program], services: Any) -> Dispatcher:
        made = _Deaf(replay=ReplayCache(max_bytes=1 << 20, max_age_seconds=60.0), clock=time.monotonic)
        for program in programs:
            made.add(program, services)
        self._dispatchers.append(made)
        return made

    async def _listen(self, bound: Bound, dispatcher: Dispatcher) -> None:
        served = _Served(bound, dispatcher)
        await served.start()
        self._served.append(served)

    def _close(self) -> None:
        while self._served:
            self._served.pop().close()

    # Calls of its own.

    def transport(
        self,
        port: int,
        *,
        server: str = "127.0.0.1",
        over: type[TcpTransport] | type[UdpTransport] = TcpTransport,
        credential: opaque_auth = ROOT,
    ) -> Transport:
        """To a server, from this host's address."""
        made = over(server, port, credential=credential, source=(self.address, 0), timeout_seconds=WAIT_SECONDS)
        self._calls.append(made)
        return made

    def nlm(self, port: int, *, name: bytes | None = None, dialect: Dialect = NLM4, **how: Any) -> NlmClient:
        return NlmClient(self.transport(port, **how), self.name if name is None else name, dialect=dialect)

    def nfs(self, port: int, **how: Any) -> Nfs3Client:
        return Nfs3Client(self.transport(port, **how))


async def _bind_patiently(address: str, port: int) -> Bound:
    """Somebody may listen on that port of all addresses for a moment."""
    for _ in range(100):
        try:
            return bind([address], port, with_udp=True)
        except CannotListen as error:
            if not error.is_taken:
                raise
            await asyncio.sleep(0.1)
    return bind([address], port, with_udp=True)


def _lock_programs() -> list[Program]:
    return [_lock_program(dialect) for dialect in DIALECTS]


def _lock_program(dialect: Dialect) -> Program:
    """What a client's lock service answers: GRANTED, and the answers to its messages."""
    program = Program("NLM", NLM, dialect.version)

    @program.procedure(5, dialect.testargs, dialect.res)
    async def granted(call: Call, args: Any) -> Any:
        host: Host = call.services
        grant = Grant(time.monotonic(), dialect, args, call.peer, call.xid)
        host.grants.append(grant)
        answer = host.on_granted(grant)
        if isinstance(answer, Late):
            await asyncio.sleep(answer.seconds)
            answer = answer.status
        return dialect.res(args.cookie, dialect.statuses[answer])

    for name in ("TEST", "LOCK", "CANCEL", "UNLOCK", "GRANTED"):
        _add_response(program, dialect, name)
    return program


def _add_response(program: Program, dialect: Dialect, name: str) -> None:
    number, _, result = NUMBERS[name]
    assert result is not None, "each of them has one"

    @program.procedure(number + 10, getattr(dialect, result), None)
    def respond(call: Call, args: Any) -> None:
        host: Host = call.services
        host.responses.append(Response(name, args, call.peer))


def is_ipv6_here() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
