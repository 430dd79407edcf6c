"""RPC over TCP: what a connection does with records, answers, limits and calls of our own."""

import asyncio
import random
import struct
import zlib

import pytest

from dittofs.rpc.calling import Exchange, xid_of
from dittofs.rpc.messages import accept_stat, accepted
from dittofs.rpc.records import Reassembler, frame
from tests.net.echoing import BACK, CALL_BACK, CHECK, CHECK_LATER, ECHO, LARGE, LATER, NEVER, Served, serving, until


class Connection:
    """A client that sends bytes as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader = reader
        self.writer = writer
        self._pieces = Reassembler(max_record_size=1 << 20)
        self._records: list[bytes] = []

    @classmethod
    async def to(cls, served: Served) -> "Connection":
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        served.clients.append(writer)
        return cls(reader, writer)

    def call(self, exchange: Exchange, xid: int, argument: int) -> None:
        self.writer.write(frame(exchange.encode(xid, argument)))

    async def record(self) -> bytes:
        async with asyncio.timeout(10):
            while not self._records:
                data = await self.reader.read(65_536)
                assert data, "the server closed the connection"
                self._records += self._pieces.feed(data)
        return self._records.pop(0)

    async def closed(self) -> bool:
        async with asyncio.timeout(10):
            try:
                return not await self.reader.read(65_536)
            except ConnectionResetError:
                return True


async def test_calls_are_answered_as_they_finish() -> None:
    """[NFS-6]: a call that waits does not keep back those behind it."""
    async with serving() as served:
        client = await Connection.to(served)
        client.call(LATER, 1, 40)
        client.call(ECHO, 2, 5)
        assert ECHO.decode(await client.record(), 2) == 5
        served.echo.later[0].set_result(2)
        assert LATER.decode(await client.record(), 1) == 42


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
async def test_records_come_in_any_pieces_and_fragments(size: int) -> None:
    """[NFS-6]"""
    async with serving() as served:
        client = await Connection.to(served)
        record = ECHO.encode(1, 5)
        halves = struct.pack(">I", 10) + record[:10] + struct.pack(">I", len(record) - 10 | 1 << 31) + record[10:]
        stream = frame(record) + halves + halves + frame(record) + halves
        for start in range(0, len(stream), size):
            client.writer.write(stream[start : start + size])
            await client.writer.drain()
            await asyncio.sleep(0)
        for _ in range(5):
            assert ECHO.decode(await client.record(), 1) == 5


@pytest.mark.parametrize("piece", [5_000, 131_072, 1 << 22])
async def test_large_records_arrive_whole_whatever_comes_between(piece: int) -> None:
    """[NFS-6]: they stay where they were received, also while others are received and while nobody answers."""
    sizes = (300_000, 300_000, 300_000, 10, 70_000, 65_000, 1_000_000, 300_000, 4, 0, 130_900, 131_200)
    async with serving() as served:
        clients = [await Connection.to(served) for _ in range(3)]
        expected: list[dict[int, int]] = [{} for _ in clients]
        streams = [b"", b"", b""]
        for xid, size in enumerate(sizes * 2):
            for number in range(len(clients)):
                data = random.Random(xid * 3 + number).randbytes(size)
                expected[number][xid] = zlib.crc32(data)
                streams[number] += frame((CHECK_LATER if xid % 3 == 1 else CHECK).encode(xid, data))
        for start in range(0, max(map(len, streams)), piece):
            for client, stream in zip(clients, streams, strict=True):
                client.writer.write(stream[start : start + piece])
            await asyncio.sleep(0)
        for client, answers in zip(clients, expected, strict=True):
            while answers:
                record = await client.record()
                assert CHECK.decode(record, xid_of(record)) == answers.pop(xid_of(record))


async def test_a_call_of_our_own_goes_over_the_peers_connection() -> None:
    """[NLM-1]: the `_MSG` procedures are answered by a call; the reply to that is dropped, and nothing breaks."""
    async with serving() as served:
        client = await Connection.to(served)
        client.call(CALL_BACK, 1, 4045)
        first, second = await client.record(), await client.record()
        assert first == BACK.encode(77, 4045)
        assert CALL_BACK.decode(second, 1) == 1
        client.writer.write(frame(accepted(77, accept_stat.SUCCESS)))
        client.call(ECHO, 2, 6)
        assert ECHO.decode(await client.record(), 2) == 6
        client.writer.close()
        await until(lambda: not served.service.connections)
        assert not served.echo.peers[0].send(b"too late", 4045)


async def test_a_call_that_gets_no_answer_is_not_owed_one() -> None:
    """[KEEP-1]: NoAnswer leaves no place taken, and its retransmission is run, not held for a duplicate."""
    async with serving(max_calls_per_connection=4) as served:
        client = await Connection.to(served)
        for _ in range(20):
            client.call(NEVER, 1, 0)
        client.call(ECHO, 2, 5)
        assert ECHO.decode(await client.record(), 2) == 5


async def test_no_more_is_read_while_too_many_calls_are_unanswered() -> None:
    async with serving(max_calls_per_connection=4) as served:
        client = await Connection.to(served)
        for xid in range(4):
            client.call(LATER, xid, 0)
        await until(lambda: len(served.echo.later) == 4)
        client.call(LATER, 4, 0)
        other = await Connection.to(served)
        other.call(ECHO, 9, 5)
        await other.record()
        assert len(served.echo.later) == 4, "the fifth is left in the socket"
        for future in served.echo.later[:2]:
            future.set_result(0)
        await until(lambda: len(served.echo.later) == 5)


@pytest.mark.parametrize("is_fragmented", [False, True])
async def test_answers_that_nobody_takes_are_not_made(is_fragmented: bool) -> None:
    """[NFS-6]: 500 calls in one write ask for 50 MB; a few are answered, and the rest when answers are taken."""
    async with serving(max_reply_bytes_per_connection=1_000_000) as served:
        client = await Connection.to(served)
        call = frame(LARGE.encode(1, 100_000))
        if is_fragmented:
            call = struct.pack(">I", 4) + call[4:8] + struct.pack(">I", 1 << 31 | len(call) - 8) + call[8:]
        client.writer.write(call * 500)
        other = await Connection.to(served)
        for _ in range(20):
            other.call(ECHO, 2, 5)
            await other.record()
        assert served.echo.large < 250, "the sockets hold some, the server a megabyte"
        for _ in range(500):
            assert len(LARGE.decode(await client.record(), 1)) == 100_000
        assert served.echo.large == 500


async def test_many_small_answers_that_nobody_takes_are_not_made_either() -> None:
    """[NFS-6]: what is sent in one go is bounded, however many calls one read brings."""
    async with serving(max_reply_bytes_per_connection=100_000) as served:
        client = await Connection.to(served)
        client.writer.write(frame(LARGE.encode(1, 16_000)) * 2400)
        await until(lambda: any(connection._write_is_paused for connection in served.service.connections))
        assert served.echo.large < 1200, "the sockets hold some, the server a little"
        for _ in range(2400):
            assert len(LARGE.decode(await client.record(), 1)) == 16_000


async def test_answer_that_is_ready_when_the_client_ends_its_side_is_delivered() -> None:
    """It leaves with the next turn; an end that is seen before must not close the connection over it."""
    async with serving() as served:
        client = await Connection.to(served)
        client.call(LATER, 1, 0)
        await until(lambda: len(served.echo.later) == 1)
        (connection,) = served.service.connections
        conversation = connection._conversation
        served.echo.later[0].set_result(7)
        while conversation.unanswered:
            await asyncio.sleep(0)
        assert connection.eof_received() is False
        assert connection._transport is not None
        connection._transport.close()  # as the loop does then
        assert xid_of(await client.record()) == 1


async def test_record_limit_holds_for_large_records_too() -> None:
    """[NFS-6]: also if the record is the first in a read, and is received where it lies."""
    async with serving(max_record_bytes=100_000) as served:
        client = await Connection.to(served)
        client.writer.write(frame(CHECK.encode(1, bytes(500_000))))
        assert await client.closed()
        assert served.service.counters.dropped_for_bad_records == 1


async def test_calls_in_one_write_are_bounded_too() -> None:
    """[NFS-6]: no more are under way than the limit says, although all of them have been received."""
    async with serving(max_calls_per_connection=4) as served:
        client = await Connection.to(served)
        client.writer.write(b"".join(frame(LATER.encode(xid, 0)) for xid in range(12)))
        done = 0
        while done < 12:
            await until(lambda done=done: len(served.echo.later) >= min(done + 4, 12))
            assert len(served.echo.later) <= done + 4
            for future in served.echo.later[done : done + 4]:
                future.set_result(0)
            done += 4
        assert sorted([xid_of(await client.record()) for _ in range(12)]) == list(range(12))


async def test_a_client_that_ends_its_side_gets_its_answers_and_is_closed() -> None:
    async with serving() as served:
        client = await Connection.to(served)
        client.call(LATER, 1, 0)
        client.writer.write_eof()
        await until(lambda: len(served.echo.later) == 1)
        served.echo.later[0].set_result(7)
        assert xid_of(await client.record()) == 1
        assert await client.closed()
        await until(lambda: not served.service.connections)


@pytest.mark.parametrize(
    "stream",
    [
        struct.pack(">I", 1 << 31 | 5000),
        struct.pack(">I", 5000),
        struct.pack(">II", 0, 0) * 20,
        frame(b"too short"),
        frame(bytes(4) + (2).to_bytes(4) + bytes(40)),
    ],
    ids=["oversized record", "oversized fragment", "endless fragments", "no call", "unknown message"],
)
async def test_a_stream_without_meaning_is_closed_and_counted(stream: bytes) -> None:
    """[NFS-6]"""
    async with serving(max_record_bytes=4096, max_fragments=16) as served:
        client = await Connection.to(served)
        client.writer.write(stream)
        assert await client.closed()
        assert served.service.counters.dropped_for_bad_records == 1


@pytest.mark.parametrize("fragment_bit", [0, 1 << 31])
async def test_a_trickle_does_not_keep_a_connection_alive(fragment_bit: int) -> None:
    """[NFS-6]: time counts from the first byte of the record, not from the last one that came."""
    now = 0.0
    async with serving(slow_sender_seconds=30, idle_timeout_seconds=0) as served:
        served.service.clock = lambda: now
        client = await Connection.to(served)
        client.call(ECHO, 1, 5)
        await client.record()
        client.writer.write(struct.pack(">I", 100 | fragment_bit))
        for number in range(1, 4):
            received = served.service.counters.bytes_received
            client.writer.write(b"x")
            await until(lambda received=received: served.service.counters.bytes_received > received)
            now = number * 15.0
            served.service.sweep()
        assert await client.closed()
        assert served.service.counters.dropped_for_silence == 1


async def test_a_busy_connection_is_not_a_slow_one() -> None:
    """Each read ends in the middle of a record, for longer than a single record may take."""
    now = 0.0
    async with serving(slow_sender_seconds=30, idle_timeout_seconds=0) as served:
        served.service.clock = lambda: now
        client = await Connection.to(served)
        call = frame(ECHO.encode(1, 5))
        client.writer.write(call[:20])
        for _ in range(6):
            client.writer.write(call[20:] + call[:20])
            await client.record()
            now += 20.0
            served.service.sweep()
        assert len(served.service.connections) == 1


async def test_connections_are_bounded() -> None:
    """[NFS-6]: in all, and from one address."""
    async with serving(max_connections=2) as served:
        clients = [await Connection.to(served) for _ in range(3)]
        assert await clients[2].closed()
        clients[0].call(ECHO, 1, 5)
        assert ECHO.decode(await clients[0].record(), 1) == 5
        clients[1].writer.close()
        await until(lambda: len(served.service.connections) == 1)
        again = await Connection.to(served)
        again.call(ECHO, 1, 5)
        assert ECHO.decode(await again.record(), 1) == 5
        assert served.service.counters.refused == 1
