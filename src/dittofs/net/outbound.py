"""Calls to other hosts: one exchange, over TCP or UDP, within a deadline.  Also to a daemon of this host ("local")."""

import asyncio
import errno
import itertools
import os
import random
import socket
import sys
from collections.abc import Callable
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
    progress = _Progress(timeout_seconds)
    try:
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
    """How far a call has come, and how long it may take.  Waits without a task: whoever begins a call can go on with it
    until there is really something to wait for."""

    __slots__ = ("_loop", "deadline", "is_sent")

    def __init__(self, timeout_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.deadline = self._loop.time() + timeout_seconds
        self.is_sent = False

    async def readable(self, made: socket.socket, *, until: float | None = None) -> None:
        """Raises TimeoutError at the deadline, or at `until`."""
        await self._ready(made.fileno(), self._loop.add_reader, self._loop.remove_reader, until or self.deadline)

    async def writable(self, made: socket.socket) -> None:
        """Raises TimeoutError at the deadline."""
        await self._ready(made.fileno(), self._loop.add_writer, self._loop.remove_writer, self.deadline)

    async def _ready(self, number: int, add: Callable[..., Any], remove: Callable[[int], Any], until: float) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()
        timer = self._loop.call_at(until, _too_late, ready)
        add(number, _done, ready)
        try:
            await ready
        finally:
            remove(number)
            timer.cancel()


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
    pieces = Reassembler(max_record_size=MAX_REPLY_BYTES)
    rest = frame(record)
    with _socket(where, socket.SOCK_STREAM, local_address) as connection:
        # To a host nearby the connection stands at once, and the call is gone before anybody waits for anything.
        code = connection.connect_ex(where)
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, os.strerror(code))
        while rest:
            try:
                rest = rest[connection.send(rest) :]
                progress.is_sent = True
            except BlockingIOError:
                await progress.writable(connection)
        while True:
            await progress.readable(connection)
            try:
                data = connection.recv(MAX_REPLY_BYTES)
            except BlockingIOError:
                continue
            if not data:
                raise ConnectionResetError(None, "the connection was closed without an answer")
            for reply in pieces.feed(data):
                if xid_of(reply) == xid:
                    return reply


async def _ask_udp(record: bytes, xid: int, where: Where, local_address: str | None, progress: _Progress) -> bytes:
    """Sent again every half second: datagrams get lost."""
    loop = asyncio.get_running_loop()
    with _socket(where, socket.SOCK_DGRAM, local_address) as datagrams:
        datagrams.connect(where)
        while True:
            datagrams.send(record)
            progress.is_sent = True
            again_at = loop.time() + UDP_RETRY_SECONDS
            try:
                while True:
                    await progress.readable(datagrams, until=min(again_at, progress.deadline))
                    try:
                        reply = datagrams.recv(MAX_REPLY_BYTES)
                    except BlockingIOError:  # a datagram that was damaged on its way is none
                        continue
                    if len(reply) >= 4 and xid_of(reply) == xid:
                        return reply
            except TimeoutError:
                if loop.time() >= progress.deadline:
                    raise


def _done(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)


def _too_late(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_exception(TimeoutError())
