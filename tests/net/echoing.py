"""A program to call over real sockets: it echoes, now or later, and calls its caller back."""

import asyncio
import contextlib
import socket
import time
import zlib
from collections.abc import AsyncIterator
from typing import Annotated, Any

from dittofs.net.limits import TcpLimits
from dittofs.net.listening import Bound, bind
from dittofs.net.tcp import TcpService
from dittofs.net.udp import UdpServer
from dittofs.rpc.calling import Exchange
from dittofs.rpc.dispatch import Dispatcher
from dittofs.rpc.program import Call, NoAnswer, Peer, Program
from dittofs.rpc.replay import ReplayCache
from dittofs.xdr.types import Opaque, OpaqueView, uint32

NUMBER, VERSION = 0x2000_0001, 1
ECHO = Exchange("ECHO", NUMBER, VERSION, 1, uint32, uint32)
LATER = Exchange("LATER", NUMBER, VERSION, 2, uint32, uint32)
NEVER = Exchange("NEVER", NUMBER, VERSION, 3, uint32, uint32)
CALL_BACK = Exchange("CALL_BACK", NUMBER, VERSION, 4, uint32, uint32)
LARGE = Exchange("LARGE", NUMBER, VERSION, 5, uint32, Annotated[bytes, Opaque(max=1 << 20)])
Data = Annotated[bytes | bytearray | memoryview, OpaqueView(max=1 << 20)]
CHECK = Exchange("CHECK", NUMBER, VERSION, 6, Data, uint32)
CHECK_LATER = Exchange("CHECK_LATER", NUMBER, VERSION, 7, Data, uint32)
BACK = Exchange("BACK", NUMBER, VERSION, 9, uint32, None)

PROGRAM = Program("ECHO", NUMBER, VERSION)


class Echo:
    """What the procedures work on."""

    def __init__(self) -> None:
        self.later: list[asyncio.Future[int]] = []
        self.peers: list[Peer] = []
        self.large = 0


@PROGRAM.procedure(1, uint32, uint32)
def echo(call: Call, number: int) -> int:
    return number


@PROGRAM.procedure(2, uint32, uint32)
async def later(call: Call, number: int) -> int:
    """Answered when the test says so."""
    future = asyncio.get_running_loop().create_future()
    call.services.later.append(future)
    return number + await future


@PROGRAM.procedure(3, uint32, uint32, is_replayed=True)
def never(call: Call, number: int) -> int:
    raise NoAnswer


@PROGRAM.procedure(4, uint32, uint32)
def call_back(call: Call, port: int) -> int:
    """Answers whether it could call `BACK` at that port of its caller."""
    call.services.peers.append(call.peer)
    return int(call.peer.send(BACK.encode(77, port), port))


@PROGRAM.procedure(5, uint32, Annotated[bytes, Opaque(max=1 << 20)])
def large(call: Call, size: int) -> bytes:
    call.services.large += 1
    return bytes(size)


@PROGRAM.procedure(6, Data, uint32)
def check(call: Call, data: memoryview) -> int:
    return zlib.crc32(data)


@PROGRAM.procedure(7, Data, uint32)
async def check_later(call: Call, data: memoryview) -> int:
    """Looks at the data when others have been served."""
    for _ in range(20):
        await asyncio.sleep(0)
    return zlib.crc32(data)


class Served:
    """The program on a port of its own."""

    def __init__(self, bound: Bound, service: TcpService, datagrams: list[UdpServer], echo: Echo):
        self.port = bound.port
        self.service = service
        self.datagrams = datagrams
        self.echo = echo
        self.clients: list[asyncio.StreamWriter] = []


@contextlib.asynccontextmanager
async def serving(*addresses: str, max_calls: int = 256, **limits: Any) -> AsyncIterator[Served]:
    loop = asyncio.get_running_loop()
    dispatcher = Dispatcher(replay=ReplayCache(max_bytes=65_536, max_age_seconds=60), clock=time.monotonic)
    services = Echo()
    dispatcher.add(PROGRAM, services)
    bound = bind(addresses or ("127.0.0.1",), 0, with_udp=True)
    service = TcpService(dispatcher, TcpLimits(**limits), time.monotonic)
    servers = [await loop.create_server(service, sock=stream) for stream in bound.streams]
    datagrams = [UdpServer(made, dispatcher, loop, max_calls=max_calls) for made in bound.datagrams]
    served = Served(bound, service, datagrams, services)
    try:
        yield served
    finally:
        for client in served.clients:
            client.close()
            with contextlib.suppress(OSError):
                await client.wait_closed()
        for server in servers:
            server.close()
        service.close()
        for made in datagrams:
            made.close()


def datagram_socket(address: str = "127.0.0.1") -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((address, 0))
    made.setblocking(False)
    return made


async def received(client: socket.socket) -> tuple[bytes, Any]:
    """The next datagram and its sender, within ten seconds; uvloop has no sock_recvfrom."""
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(client, readable.set_result, None)
    try:
        async with asyncio.timeout(10):
            await readable
    finally:
        loop.remove_reader(client)
    return client.recvfrom(65_536)


async def until(claim: Any) -> None:
    """Wait until it is true, within ten seconds."""
    async with asyncio.timeout(10):
        while not claim():
            await asyncio.sleep(0)
