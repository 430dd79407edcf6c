"""A lock service for a process that waits for one lock: hears NLM_GRANTED, if servers can find it.

Servers ask port 111 of our address where to call.  If nobody is there we answer ourselves; if it is the host's rpcbind
we register, unless somebody is registered already: the kernel's own lock service, whose callbacks those are.  Then, or
where we may do neither, `is_reachable` is false, and whoever waits has to ask again and again.
"""

import asyncio
import contextlib
import threading
import time
from typing import Any, Self

from dittofs.client import portmap
from dittofs.client.transports import NoReply, TcpTransport
from dittofs.net import outbound
from dittofs.net.limits import TcpLimits
from dittofs.net.listening import Bound, CannotListen, bind
from dittofs.net.tcp import TcpService
from dittofs.net.udp import UdpServer
from dittofs.protocols.nlm.dialects import NLM4
from dittofs.protocols.nlm.types import PROGRAM, nlm4_stats, nlm4_testargs
from dittofs.protocols.portmap.addresses import NetworkId, family_of
from dittofs.protocols.portmap.portmapper import PORTMAP2
from dittofs.protocols.portmap.registering import SET, UNSET, Registration, registrations
from dittofs.protocols.portmap.registry import Registry
from dittofs.protocols.portmap.rpcbind import RPCBIND3, RPCBIND4
from dittofs.protocols.portmap.services import PortmapServices
from dittofs.rpc.calling import CallFailed, Exchange
from dittofs.rpc.dispatch import Dispatcher
from dittofs.rpc.program import Call, Program
from dittofs.rpc.replay import ReplayCache

RPCBIND_SOCKET = "/run/rpcbind.sock"
RPCBIND_SECONDS = 2.0
START_SECONDS = 10.0


class Callbacks:
    """A context manager: the service runs within the block, in a thread of its own."""

    def __init__(self, local_address: str, port_mapper_port: int = portmap.PORT):
        self.is_reachable = False
        self._address = local_address
        self._port_mapper_port = port_mapper_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="callbacks", daemon=True)
        self._networks = [NetworkId(transport, family_of(local_address)) for transport in ("tcp", "udp")]
        self._registered: list[Registration] = []
        self._streams: list[asyncio.Server] = []
        self._datagrams: list[UdpServer] = []
        self._expected: nlm4_testargs | None = None
        self._granted = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        with contextlib.suppress(CannotListen, CallFailed, NoReply, OSError):
            self._run(self._start())
            self.is_reachable = True
        return self

    def __exit__(self, *exception: object) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)
        self._loop.close()

    def expect(self, lock: nlm4_testargs) -> None:
        """From now on this lock is taken if it is offered, and no other."""
        self._granted.clear()
        self._expected = lock

    def wait(self, seconds: float) -> bool:
        """Until it is offered; false if that took too long."""
        return self._granted.wait(seconds)

    def take(self, args: nlm4_testargs) -> nlm4_stats:
        """The answer to a callback."""
        expected = self._expected
        if expected is None or (args.alock, args.exclusive) != (expected.alock, expected.exclusive):
            return nlm4_stats.NLM4_DENIED
        self._granted.set()
        return nlm4_stats.NLM4_GRANTED

    def _run(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(START_SECONDS)

    async def _start(self) -> None:
        service = bind([self._address], 0, with_udp=True)
        await self._listen(service, [_lock_program()], self)
        try:
            mapper = bind([self._address], self._port_mapper_port, with_udp=True)
        except CannotListen:
            await self._register(service.port)
            return
        registry = Registry()
        for network in self._networks:
            registry.announce(PROGRAM, NLM4.version, network, service.port)
        await self._listen(mapper, [PORTMAP2, RPCBIND3, RPCBIND4], PortmapServices(registry, time.time))

    async def _listen(self, bound: Bound, programs: list[Program], services: Any) -> None:
        dispatcher = Dispatcher(replay=ReplayCache(max_bytes=65_536, max_age_seconds=60.0), clock=time.monotonic)
        for program in programs:
            dispatcher.add(program, services)
        tcp = TcpService(dispatcher, TcpLimits(max_connections=64), time.monotonic)
        for stream in bound.streams:
            self._streams.append(await self._loop.create_server(tcp, sock=stream))
        self._datagrams += [UdpServer(datagrams, dispatcher, self._loop) for datagrams in bound.datagrams]

    async def _register(self, port: int) -> None:
        """With the host's rpcbind.  Raises CallFailed if it has somebody else's lock service, or does not want us."""
        await asyncio.to_thread(self._check_nobody_is_registered)
        for registration in registrations([_lock_program()], self._networks, port):
            if not await _ask_rpcbind(SET, registration):
                raise CallFailed("rpcbind refuses our entry")
            self._registered.append(registration)

    def _check_nobody_is_registered(self) -> None:
        with TcpTransport(self._address, self._port_mapper_port, timeout_seconds=RPCBIND_SECONDS) as transport:
            if portmap.port_of(transport, PROGRAM, NLM4.version):
                raise CallFailed("this host has a lock service already")

    async def _stop(self) -> None:
        for registration in self._registered:
            with contextlib.suppress(CallFailed):
                await _ask_rpcbind(UNSET, registration)
        for server in self._streams:
            server.close()
        for datagrams in self._datagrams:
            datagrams.close()


async def _ask_rpcbind(exchange: Exchange, registration: Registration) -> bool:
    answer: bool = await outbound.call(
        exchange,
        registration.entry,
        address=RPCBIND_SOCKET,
        port=0,
        transport="local",
        timeout_seconds=RPCBIND_SECONDS,
    )
    return answer


def _lock_program() -> Program:
    program = Program("NLM", PROGRAM, NLM4.version)

    @program.procedure(0, None, None)
    def null(call: Call, args: None) -> None:
        """RFC 1813 6.3.1."""

    @program.procedure(5, NLM4.testargs, NLM4.res)
    def granted(call: Call, args: nlm4_testargs) -> Any:
        """RFC 1813 6.3.6."""
        callbacks: Callbacks = call.services
        return NLM4.res(args.cookie, callbacks.take(args))

    return program
