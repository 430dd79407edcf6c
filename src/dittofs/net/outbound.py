"""Calls to other hosts: one exchange, over TCP or UDP, within a deadline.  Also to a daemon of this host ("local")."""

import asyncio
import errno
import itertools
import os
import random
import socket
import sys
from typing import Any

from dittofs.rpc.calling import Exchange, NoReply, Refused, Unreachable, xid_of
from dittofs.rpc.messages import NO_AUTH, opaque_auth
from dittofs.rpc.records import Reassembler, RecordError, frame

MAX_REPLY_BYTES = 65_536
UDP_RETRY_SECONDS = 0.5

_IP_BIND_ADDRESS_NO_PORT = 24  # Linux's number; not in every Python's socket module

_xids = itertools.count(random.randrange(2**31))


Where = tuple[str, int] | str
"""An address and port, or the path of a local socket."""


async def call(
    exchange: Exchange,
    arguments: Any = None,
    *,
    address: str,
    port: int,
    transport: str,
    timeout_seconds: float,
    local_address: str | None = None,
    credential: opaque_auth = NO_AUTH,
) -> Any:
    """Perform one exchange on a fresh socket; over "local", `address` is a path and `port` 0.

    Raises CallFailed, of which Unreachable means that it was not sent, and Refused that nobody listens there.
    """
    xid = next(_xids) & 0xFFFFFFFF
    record = exchange.encode(xid, arguments, credential=credential)
    ask = _ask_udp if transport == "udp" else _ask_stream
    where: Where = address if transport == "local" else (address, port)
    place = address if transport == "local" else f"{transport.upper()} port {port} of {address}"
    progress = _Progress()
    try:
        async with asyncio.timeout(timeout_seconds):
            reply = await ask(record, xid, where, local_address, progress)
    except TimeoutError:
        kind = NoReply if progress.is_sent else Unreachable
        raise kind(f"{exchange.name}: {place} gave no answer in {timeout_seconds:g} s") from None
    except RecordError as error:
        raise NoReply(f"{exchange.name}: {place}: {error}") from error
    except ConnectionRefusedError as error:
        raise Refused(f"{exchange.name}: {place} refuses connections") from error
    except OSError as error:
        kind = NoReply if progress.is_sent else Unreachable
        raise kind(f"{exchange.name}: {place}: {error.strerror or error}") from error
    return exchange.decode(reply, xid)


class _Progress:
    __slots__ = ("is_sent",)

    def __init__(self) -> None:
        self.is_sent = False


def _socket(where: Where, kind: socket.SocketKind, local_address: str | None) -> socket.socket:
    if isinstance(where, str):
        family = socket.AF_UNIX
    else:
        family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
    made = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    if local_address is not None:
        try:
            if kind == socket.SOCK_STREAM and sys.platform == "linux":
                # The port is chosen when it connects: else one port per call would be used up for a minute each.
                made.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
            made.bind((local_address, 0))
        except OSError:
            made.close()
            raise
    return made


async def _ask_stream(record: bytes, xid: int, where: Where, local_address: str | None, progress: _Progress) -> bytes:
    loop = asyncio.get_running_loop()
    pieces = Reassembler(max_record_size=MAX_REPLY_BYTES)
    framed = frame(record)
    with _socket(where, socket.SOCK_STREAM, local_address) as connection:
        # To a host nearby the connection stands at once, and so may the answer.
        code = connection.connect_ex(where)
        if code == errno.EINPROGRESS and not _is_connected(connection):
            await _connected(connection, loop)
        elif code not in (0, errno.EINPROGRESS):
            raise OSError(code, os.strerror(code))
        progress.is_sent = True
        await loop.sock_sendall(connection, framed)
        while data := await loop.sock_recv(connection, MAX_REPLY_BYTES):
            for reply in pieces.feed(data):
                if xid_of(reply) == xid:
                    return reply
    raise ConnectionResetError(None, "the connection was closed without an answer")


def _is_connected(connection: socket.socket) -> bool:
    """Raises OSError if it never will be."""
    code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))
    try:
        connection.getpeername()
    except OSError:
        return False
    return True


async def _connected(connection: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
    """Until the connection stands.  Raises OSError if it does not come to that."""
    writable: asyncio.Future[None] = loop.create_future()
    loop.add_writer(connection.fileno(), _done, writable)
    try:
        await writable
    finally:
        loop.remove_writer(connection.fileno())
    code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))


def _done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def _ask_udp(record: bytes, xid: int, where: Where, local_address: str | None, progress: _Progress) -> bytes:
    """Sent again every half second: datagrams get lost."""
    loop = asyncio.get_running_loop()
    with _socket(where, socket.SOCK_DGRAM, local_address) as datagrams:
        await loop.sock_connect(datagrams, where)
        while True:
            await loop.sock_sendall(datagrams, record)
            progress.is_sent = True
            try:
                async with asyncio.timeout(UDP_RETRY_SECONDS):
                    while True:
                        reply = await loop.sock_recv(datagrams, MAX_REPLY_BYTES)
                        if len(reply) >= 4 and xid_of(reply) == xid:
                            return reply
            except TimeoutError:
                continue
