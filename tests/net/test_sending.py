"""What was not read goes out in its place among the other pieces, whether the socket takes it or not."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import pytest

from dittofs.model.unread import Unread
from dittofs.net.sending import send


class Pages(Unread):
    """Gives a socket at most `taken` of its bytes."""

    def __init__(self, data: bytes, *, taken: int, is_readable: bool = True):
        self.data = data
        self.taken = taken
        self.is_readable = is_readable
        self.asked = 0

    def __len__(self) -> int:
        return len(self.data)

    def send(self, descriptor: int) -> int:
        self.asked += 1
        return os.write(descriptor, self.data[: self.taken]) if self.taken else 0

    def rest(self, sent: int) -> bytes:
        if not self.is_readable:
            raise OSError("no such luck")
        return self.data[sent:]


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[tuple[asyncio.Transport, asyncio.StreamReader]]:
    """A transport of the server, and what its client reads."""
    loop = asyncio.get_running_loop()
    made: asyncio.Future[asyncio.Transport] = loop.create_future()

    class Connection(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.set_result(transport)  # type: ignore[arg-type]

    server = await loop.create_server(Connection, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    transport = await made
    try:
        yield transport, reader
    finally:
        transport.abort()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        server.close()


@pytest.mark.parametrize("taken", [0, 3, 8])
async def test_everything_arrives_in_its_order(taken: int) -> None:
    async with connected() as (transport, reader):
        send(transport, [b"one ", Pages(b"unread 1", taken=taken), b" two", Pages(b"unread 2", taken=taken)])
        send(transport, [Pages(b"unread 3", taken=taken), b" three"])
        send(transport, [b" four", b" five"])
        expected = b"one unread 1 twounread 2unread 3 three four five"
        assert await reader.readexactly(len(expected)) == expected


async def test_nothing_overtakes_what_waits_in_the_transport() -> None:
    async with connected() as (transport, reader):
        much = bytes(16 << 20)
        transport.write(much)
        assert transport.get_write_buffer_size()
        pages = Pages(b"unread", taken=6)
        send(transport, [b"before ", pages])
        assert not pages.asked
        assert await reader.readexactly(len(much)) == much
        assert await reader.readexactly(13) == b"before unread"


async def test_an_answer_that_cannot_be_finished_ends_the_connection() -> None:
    async with connected() as (transport, reader):
        send(transport, [b"before ", Pages(b"unread", taken=3, is_readable=False), b"behind"])
        with contextlib.suppress(ConnectionResetError):
            assert b"behind" not in await reader.read()
        assert transport.is_closing()


async def test_a_connection_that_is_closed_gets_nothing() -> None:
    async with connected() as (transport, _):
        transport.abort()
        pages = Pages(b"unread", taken=6)
        send(transport, [b"before ", pages])
        assert not pages.asked
