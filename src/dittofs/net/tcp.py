"""RPC over TCP: all calls found in one read are handled, and their replies leave in one write.

One receive buffer serves every connection, because a read is handled before the next begins; what a connection keeps
between reads is the unfinished record only.  Whose large record (a WRITE) begins in it takes the buffer with him, and
the rest is received behind, so that its data is not copied.  A connection is left unread while too many of its calls
are unanswered or its replies are not taken.
"""

import asyncio
import struct
from collections import Counter
from collections.abc import Callable
from typing import Final, cast

import structlog

from dittofs.net.addresses import peer_of
from dittofs.net.attention import Attention
from dittofs.net.buffers import USUAL_BYTES, SpareBuffers
from dittofs.net.limits import TcpCounters, TcpLimits
from dittofs.net.sending import send
from dittofs.rpc.conversation import Conversation
from dittofs.rpc.dispatch import Dispatcher
from dittofs.rpc.program import Peer, cannot_send
from dittofs.rpc.records import LAST_FRAGMENT, Reassembler, RecordError
from dittofs.xdr.errors import XdrError

log = structlog.get_logger()

RECEIVE_BYTES: Final = 128 * 1024

_unpack_mark: Final = struct.Struct(">I").unpack_from


class TcpService:
    """What all connections of one set of listening sockets share."""

    def __init__(self, dispatcher: Dispatcher, limits: TcpLimits, clock: Callable[[], float]):
        self.dispatcher = dispatcher
        self.limits = limits
        self.clock = clock
        self.counters = TcpCounters()
        self.connections: set[RpcConnection] = set()
        self.by_address: Counter[str] = Counter()
        self.spare = SpareBuffers()
        self.attention = Attention(clock, limits.busy_poll_seconds)
        self.buffer: bytearray
        """What everybody receives into."""
        self.whole: memoryview
        self.receive: memoryview
        """As much of it as one read brings, unless more is expected."""
        self.take_buffer()

    def __call__(self) -> "RpcConnection":
        return RpcConnection(self)

    def take_buffer(self) -> None:
        """Go on with another one: somebody keeps this one."""
        self.buffer = self.spare.take(USUAL_BYTES)
        self.whole = memoryview(self.buffer)
        self.receive = self.whole[:RECEIVE_BYTES]

    def too_many(self, address: str) -> str | None:
        """Why one more connection from this address cannot be taken."""
        if len(self.connections) >= self.limits.max_connections:
            return f"{self.limits.max_connections} connections are open, the most that limits.max_connections allows"
        if self.by_address[address] >= self.limits.max_connections_per_client:
            most = self.limits.max_connections_per_client
            return f"{most} connections are open from there, the most that limits.max_connections_per_client allows"
        return None

    def add(self, connection: "RpcConnection", address: str) -> None:
        self.connections.add(connection)
        self.by_address[address] += 1
        self.counters.accepted += 1

    def remove(self, connection: "RpcConnection", address: str) -> None:
        self.connections.remove(connection)
        self.by_address[address] -= 1
        if not self.by_address[address]:
            del self.by_address[address]
            self.dispatcher.memory.leave(address)
        self.counters.closed += 1

    def sweep(self) -> None:
        """Close connections that have been silent, or unfinished in the middle of a record, for too long."""
        now = self.clock()
        for connection in list(self.connections):
            reason = connection.overdue(now)
            if reason:
                self.counters.dropped_for_silence += 1
                connection.drop(reason)

    def close(self) -> None:
        for connection in list(self.connections):
            connection.close()


class RpcConnection(asyncio.BufferedProtocol):
    """One client's connection."""

    __slots__ = (
        "_backlog",
        "_changed",
        "_conversation",
        "_expected",
        "_flush_is_due",
        "_has_ended",
        "_is_reading",
        "_is_serving",
        "_large",
        "_large_end",
        "_large_filled",
        "_large_start",
        "_peer",
        "_pieces",
        "_rest",
        "_service",
        "_transport",
        "_waiting",
        "_write_is_paused",
    )

    def __init__(self, service: TcpService):
        self._service = service
        self._transport: asyncio.Transport | None = None
        self._peer: Peer | None = None
        self._conversation: Conversation
        """Since the connection was taken."""
        self._rest = b""
        self._large: bytearray | None = None
        self._large_start = self._large_filled = self._large_end = 0
        self._expected = 0
        """So long was the last record, with its mark, if it was large: the next one is likely to be."""
        self._pieces: Reassembler | None = None
        self._is_reading = True
        self._is_serving = self._flush_is_due = self._write_is_paused = self._has_ended = False
        self._backlog = b""
        self._waiting: list[bytes] = []
        self._changed = service.clock()

    # Life.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so
        service = self._service
        self._transport = transport
        remote = transport.get_extra_info("peername")
        if remote is None:  # gone already
            transport.abort()
            return
        self._peer = peer_of(remote, transport.get_extra_info("sockname"), "tcp")
        self._peer.send = self._send_call
        too_many = service.too_many(self._peer.address)
        if too_many:
            service.counters.refused += 1
            log.warning("connection refused", client=self._peer.address, reason=too_many)
            transport.abort()
            return
        limits = service.limits
        # While the socket owes more, no further call is served: what is made ahead of it only fills memory.
        transport.set_write_buffer_limits(high=limits.max_reply_bytes_per_connection)
        service.add(self, self._peer.address)
        self._conversation = Conversation(
            service.dispatcher,
            self._peer,
            self._flush_soon,
            self._flush,
            max_record=limits.max_record_bytes,
            max_unanswered=limits.max_calls_per_connection,
        )

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self._service.connections:
            assert self._peer is not None, "it was added with its peer"
            self._service.remove(self, self._peer.address)
            self._conversation.close()
        if self._peer is not None:
            self._peer.send = cannot_send  # it may be remembered for long, and the connection need not be
        self._transport = None
        self._backlog, self._waiting = b"", []

    def close(self) -> None:
        """Send what is ready, and close."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def drop(self, reason: str) -> None:
        if self._transport is not None:
            log.warning("connection closed", client=self._peer and self._peer.address, reason=reason)
            self._transport.abort()

    def overdue(self, now: float) -> str | None:
        """Why this connection should be closed, if it should."""
        limits = self._service.limits
        silent = now - self._changed
        if self._is_unfinished and self._is_reading and silent > limits.slow_sender_seconds > 0:
            return f"a record was left unfinished for {silent:.0f} seconds"
        if not self._conversation.unanswered and silent > limits.idle_timeout_seconds > 0:
            return f"idle for {silent:.0f} seconds"
        return None

    @property
    def _is_unfinished(self) -> bool:
        """The last read ended in the middle of a record."""
        return bool(self._rest) or self._large is not None or self._pieces is not None

    # Bytes in.

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None:
            return memoryview(self._large)[self._large_filled : self._large_end]
        receive, rest = self._service.receive, self._rest
        if rest:
            receive[: len(rest)] = rest
            return receive[len(rest) :]
        return self._service.whole[: self._expected] if self._expected else receive

    def buffer_updated(self, nbytes: int) -> None:
        service = self._service
        service.counters.bytes_received += nbytes
        if self._large_filled + nbytes < self._large_end:
            self._large_filled += nbytes
            return
        conversation, dispatcher, attention = self._conversation, service.dispatcher, service.attention
        was_unfinished, served = self._is_unfinished, conversation.served
        now = service.clock()
        attention.arrived(now)
        dispatcher.begin_batch(now)
        self._is_serving = True
        try:
            self._received(nbytes)
        except (RecordError, XdrError) as error:
            service.counters.dropped_for_bad_records += 1
            self.drop(str(error))
        finally:
            self._is_serving = False
        # A record counts when it is whole: bytes that trickle in do not keep a connection alive.
        if conversation.served != served or not was_unfinished:
            self._changed = now
        self._flush()
        # Whoever waits for these answers has them by now.
        now = service.clock()
        dispatcher.end_batch(now)
        self._balance()
        attention.answered(now)

    def _received(self, nbytes: int) -> None:
        """Serve what is whole of it, and keep the rest."""
        if self._large is not None:
            self._more_of_large(nbytes)
        elif self._backlog or self._waiting:
            self._serve_backlog()
        else:
            end = len(self._rest) + nbytes
            self._rest = b""
            if not self._is_large(end):
                self._expected = 0
                self._records(bytes(self._service.whole[:end]))

    def _records(self, data: bytes) -> None:
        """Serve every whole record, and keep the rest."""
        if self._pieces is not None:
            self._fragments(data)
            return
        position = self._conversation.serve_all(data, 0)
        if position == len(data):
            return
        if self._conversation.is_full:
            self._backlog = data[position:]
            return
        if len(data) - position >= 4:
            mark: int = _unpack_mark(data, position)[0]
            if mark < LAST_FRAGMENT:
                self._fragments(data[position:])
                return
            if self._begin_large(mark - LAST_FRAGMENT, data[position + 4 :]):
                return
        self._rest = data[position:]

    def _is_large(self, end: int) -> bool:
        """What was received is a large record or the beginning of one, and taken where it lies."""
        service = self._service
        buffer = service.buffer
        if end < 4 or self._pieces is not None:
            return False
        record_end = _unpack_mark(buffer)[0] - LAST_FRAGMENT + 4
        if record_end <= RECEIVE_BYTES // 2 or not end <= record_end <= len(buffer):
            return False
        if record_end - 4 > service.limits.max_record_bytes:
            return False  # refused as any other
        service.take_buffer()
        self._large = buffer
        self._large_start, self._large_filled, self._large_end = 4, 0, record_end
        self._more_of_large(end)
        return True

    def _begin_large(self, length: int, received: bytes) -> bool:
        """An unfinished record behind others: if it would not fit into the shared buffer, give it one of its own."""
        if length + 4 <= RECEIVE_BYTES // 2:
            return False
        self._large = self._service.spare.take(length)
        self._large_start, self._large_filled, self._large_end = 0, len(received), length
        self._large[: len(received)] = received
        return True

    def _more_of_large(self, nbytes: int) -> None:
        self._large_filled += nbytes
        if self._large_filled < self._large_end:
            return
        large, self._large = self._large, None
        assert large is not None, "a large record is being received"
        record = memoryview(large)[self._large_start : self._large_end]
        self._large_end = 0
        self._expected = len(record) + 4
        conversation = self._conversation
        unanswered = conversation.unanswered
        conversation.serve(record)
        if conversation.unanswered == unanswered:  # answered, so nobody looks at the data any more
            self._service.spare.give(large)

    def _fragments(self, data: bytes) -> None:
        """Records in several fragments: legal, rare, and put together the plain way."""
        limits = self._service.limits
        if self._pieces is None:
            self._pieces = Reassembler(max_record_size=limits.max_record_bytes, max_fragments=limits.max_fragments)
        self._waiting = self._pieces.feed(data)
        if self._pieces.is_empty:
            self._pieces = None
        self._serve_waiting()

    def _serve_waiting(self) -> None:
        while self._waiting and not self._conversation.is_full:
            self._conversation.serve(self._waiting.pop(0))

    def _serve_backlog(self) -> None:
        """Go on with what was received but had to wait, because too much was owed."""
        self._serve_waiting()
        backlog, self._backlog = self._backlog, b""
        if backlog:
            self._records(backlog)

    def eof_received(self) -> bool:
        """The client sends no more, but may still read: answers under way are delivered first, then it is closed."""
        self._has_ended = True
        self._flush()  # an answer may be ready that was to leave with the next turn
        return self._conversation.unanswered > 0

    # Answers out.

    def _send_call(self, record: bytes, port: int) -> bool:
        """A call of our own to the peer, among the answers.  What is not taken is bounded as answers are."""
        if self._transport is None or self._transport.is_closing() or self._write_is_paused:
            return False
        self._conversation.say(record)
        self._flush_soon()
        return True

    def _flush_soon(self) -> None:
        if not self._is_serving and not self._flush_is_due and self._transport is not None:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush_later)

    def _flush_later(self) -> None:
        self._flush_is_due = False
        self._flush()
        if self._has_ended and not self._conversation.unanswered:
            self.close()
        self._balance()

    def _flush(self) -> None:
        conversation, transport = self._conversation, self._transport
        if not conversation.out:
            return
        if conversation.has_large:
            out = conversation.take_out()
            if transport is not None:
                self._service.counters.bytes_sent += sum(map(len, out))
                send(transport, out)
            return
        joined = conversation.take_joined()
        if transport is not None:
            self._service.counters.bytes_sent += len(joined)
            transport.write(joined)

    # Back-pressure.

    def pause_writing(self) -> None:
        self._write_is_paused = self._conversation.is_full = True
        self._balance()

    def resume_writing(self) -> None:
        self._write_is_paused = False
        self._balance()

    def _balance(self) -> None:
        """Read on only while answers are taken and not too many are owed."""
        conversation = self._conversation
        limit = self._service.limits.max_calls_per_connection
        has_backlog = bool(self._backlog or self._waiting)
        if self._is_reading and not (self._write_is_paused or has_backlog or conversation.unanswered >= limit):
            conversation.is_full = False
            return
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._is_reading:
            self._is_reading = False
            transport.pause_reading()
        if self._write_is_paused or conversation.unanswered > limit // 2:
            return
        conversation.is_full = False
        if has_backlog:  # in a turn of its own: others come first
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self._is_reading = True
            self._changed = self._service.clock()
            transport.resume_reading()

    def _go_on(self) -> None:
        if (self._backlog or self._waiting) and not self._conversation.is_full:
            self.buffer_updated(0)
