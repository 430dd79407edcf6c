"""What one peer asks over a stream, and what it is owed: whole records in, framed answers out.

Knows record marks and the dispatcher, but no socket: whoever owns the socket feeds it, sends `out`, and leaves the peer
unread while it `is_full`.
"""

import struct
from collections.abc import Callable
from typing import Final

from dittofs.model.errors import FileError
from dittofs.rpc.dispatch import Dispatcher
from dittofs.rpc.program import Hold, Peer
from dittofs.rpc.records import LAST_FRAGMENT, RecordError, mark_of
from dittofs.rpc.remembering import SERIES_BYTES, AllSeries, Answers, Repeat, Repeats, Series
from dittofs.xdr.types import Chunks

LARGE_ANSWER: Final = 16 * 1024
"""An answer with more than this is sent in its pieces; a smaller one is cheaper to join."""

UNSENT_BYTES: Final = 64 * 1024
UNSENT_PIECES: Final = 1024
"""So much is collected before it is sent, be it in the middle of a read: else a few bytes of questions could make
any number of bytes of answers that nobody takes."""

SHORTEST_CALL: Final = 40
"""Six words and two empty credentials (RFC 5531 9); what is shorter is none."""

_unpack_mark: Final = struct.Struct(">I").unpack_from


class _Held:
    """Answers of one turn that wait for one batch: one call back for all of them."""

    __slots__ = ("_conversation", "arrived", "hold", "records", "repeats", "replies")

    def __init__(self, conversation: "Conversation", hold: Hold, arrived: float):
        self._conversation = conversation
        self.hold = hold
        self.arrived = arrived
        self.repeats: list[Repeat] = []
        self.records: list[bytes] = []
        """The calls, for those who would have to tell of an error."""
        self.replies: list[bytes] = []

    def add(self, repeat: Repeat, record: bytes, reply: bytes) -> None:
        self.repeats.append(repeat)
        self.records.append(record)
        self.replies.append(reply)

    def settled(self, error: FileError | None) -> None:
        self._conversation.settle(self, error)


class Conversation:
    """One peer's calls.  `on_late` is told of an answer that comes after its call was served, `on_full_hands` when
    there is enough to be sent at once: memory that the socket has taken can be used again while it is in the caches."""

    __slots__ = (
        "_answers",
        "_dispatcher",
        "_held",
        "_max_record",
        "_max_unanswered",
        "_on_full_hands",
        "_on_late",
        "_repeats",
        "_series",
        "_unsent",
        "has_large",
        "is_full",
        "is_open",
        "out",
        "peer",
        "served",
        "unanswered",
    )

    def __init__(
        self,
        dispatcher: Dispatcher,
        peer: Peer,
        on_late: Callable[[], None],
        on_full_hands: Callable[[], None],
        *,
        max_record: int,
        max_unanswered: int,
    ):
        self._dispatcher = dispatcher
        self._answers: Answers = dispatcher.memory.of(peer.address)
        self._series: AllSeries = dispatcher.memory.series_of(peer.address)
        self._held: _Held | None = None
        """The answers of this turn that wait for the newest batch."""
        self._repeats: Repeats = dispatcher.memory.repeats_of(peer)
        self._on_late = on_late
        self._on_full_hands = on_full_hands
        self._max_record = max_record
        self._max_unanswered = max_unanswered
        self._unsent = 0
        self.peer = peer
        self.out: Chunks = []
        """What is to be sent, and not taken yet."""
        self.has_large = False
        """There is something among it that is better not copied."""
        self.unanswered = 0
        """Calls whose answers are still to come."""
        self.served = 0
        self.is_full = False
        """Too much is owed: nothing more is served before this is taken back."""
        self.is_open = True
        """Answers still reach the peer."""

    def serve_all(self, data: bytes, position: int) -> int:
        """Serve one whole record after the other.  The answer is where it stopped: at a record that is not all here,
        or has several fragments, or came when too much was owed already.  Raises RecordError, XdrError."""
        end = len(data)
        answers, dispatcher, out = self._answers, self._dispatcher, self.out
        all_series, max_record = self._series, self._max_record
        repeats = self._repeats
        args_at, rest_at, by_question = repeats.args_at, repeats.rest_at, repeats.by_question
        while end - position >= 4 and not self.is_full:
            mark: int = _unpack_mark(data, position)[0]
            length = mark - LAST_FRAGMENT
            if length > max_record:
                raise RecordError(f"a record of {length} bytes, allowed are {max_record}")
            start = position + 4
            stop = start + length
            if length < 0 or stop > end:
                break
            position = stop
            if length < SHORTEST_CALL:  # nothing that could be known
                self.serve(data[start:stop])
                continue
            if args_at:
                repeat = by_question.get(data[start + 4 : start + args_at] + data[start + rest_at : stop])
                if repeat is not None:
                    cookie = data[start + args_at : start + rest_at]
                    if cookie.startswith(repeat.cookie_length) and self._repeat(repeat, cookie, data, start, stop):
                        continue
            known = answers.get(data[start + 4 : stop])
            if known is not None and known.witness.is_unchanged():
                dispatcher.count_remembered(known.counts)
                out.append(known.mark)
                out.append(data[start : start + 4])
                out.append(known.tail)
                self.served += 1
                if len(out) > UNSENT_PIECES:
                    self._on_full_hands()
            else:
                series = all_series.get(data[start + 4 : stop - SERIES_BYTES])
                position = start - 4 if series is None else self._go_on(series, data, start - 4)
                if position < start:
                    position = stop
                    self.serve(data[start:stop])
        return position

    def _repeat(self, repeat: Repeat, cookie: bytes, data: bytes, start: int, stop: int) -> bool:
        """Do once more what was asked before with another cookie, if it comes out as before."""
        doing = repeat.doing
        if not doing.again():
            return False
        self.served += 1
        hold = doing.hold
        if hold is None:
            self._dispatcher.count_repeated(repeat)
            out = self.out
            out += (repeat.mark, data[start : start + 4], repeat.before, cookie, repeat.tail)
            if len(out) > UNSENT_PIECES:
                self._on_full_hands()
            return True
        reply = data[start : start + 4] + repeat.before + cookie + repeat.tail
        self._hold(hold, repeat, data[start:stop], reply)
        return True

    def _hold(self, hold: Hold, repeat: Repeat, record: bytes, reply: bytes) -> None:
        """Keep the answer until what it tells of is durable, together with the others of this turn."""
        self.unanswered += 1
        if self.unanswered >= self._max_unanswered:
            self.is_full = True
        held, arrived = self._held, self._dispatcher.arrived
        if held is None or held.hold is not hold or held.arrived != arrived:
            held = self._held = _Held(self, hold, arrived)
            held.add(repeat, record, reply)
            hold.when_settled(held.settled)  # last: it may be settled already
        else:
            held.add(repeat, record, reply)

    def settle(self, held: "_Held", error: FileError | None) -> None:
        """Answers that were held leave, or those that tell why they cannot."""
        if self._held is held:
            self._held = None
        self.unanswered -= len(held.repeats)
        if error is None:
            self._dispatcher.count_held(held.repeats, held.arrived)
            replies: list[Chunks | None] = [[reply] for reply in held.replies]
        else:
            replies = [self._dispatcher.fail_repeated(record, self.peer, error) for record in held.records]
        if self.is_open:
            for reply in replies:
                if reply is not None:
                    self._frame(reply)
        self._on_late()

    def _go_on(self, series: Series, data: bytes, position: int) -> int:
        """Answer the questions of a series that stand there one behind the other.  Returns where it stopped."""
        if not series.witness.is_unchanged():
            return position
        go_on, out = self._dispatcher.go_on, self.out
        take_apart, before, question_bytes = series.take_apart, series.before, series.question_bytes
        first, last = position, len(data) - question_bytes
        whole, mark_of_whole = 0, b""
        while position <= last and not self.is_full:
            mark, xid, beginning, rest = take_apart(data, position)
            if mark != series.mark or beginning != series.beginning:
                break
            place = len(out)
            out += (b"", xid, before)
            size = go_on(series, rest, out)
            if not size:
                del out[place:]
                break
            size += 4 + len(before)
            if size != whole:
                whole, mark_of_whole = size, mark_of(size)
            out[place] = mark_of_whole
            position += question_bytes
            self._unsent += size
            if size > LARGE_ANSWER or self._unsent > UNSENT_BYTES:
                self._send_some(size)
        answers = (position - first) // question_bytes
        if answers:
            self.served += answers
            self._dispatcher.count_remembered(series.counts, answers)
        return position

    def serve(self, record: bytes | memoryview) -> None:
        self.served += 1
        self.unanswered += 1
        reply = self._dispatcher.serve(record, self.peer, self._deliver_late, self._answers)
        if reply is not None:
            self.unanswered -= 1
            self._frame(reply)
        elif self.unanswered >= self._max_unanswered:
            self.is_full = True

    def _deliver_late(self, reply: Chunks | None) -> None:
        self.unanswered -= 1
        if reply is not None and self.is_open:
            self._frame(reply)
        self._on_late()

    def _frame(self, reply: Chunks) -> None:
        out = self.out
        if len(reply) == 1:  # nearly all of them
            (piece,) = reply
            size = len(piece)
            out.append(mark_of(size))
            out.append(piece)
        else:
            size = sum(map(len, reply))
            out.append(mark_of(size))
            out.extend(reply)
        self._unsent += size
        if size > LARGE_ANSWER or self._unsent > UNSENT_BYTES:
            self._send_some(size)

    def _send_some(self, size: int) -> None:
        """It is enough to be sent; the last answer is that large."""
        if size > LARGE_ANSWER:
            self.has_large = True
        self._on_full_hands()

    def take_out(self) -> Chunks:
        """What is to be sent now, in its pieces."""
        taken: Chunks = self.out.copy()
        self.out.clear()
        self.has_large = False
        self._unsent = 0
        return taken

    def take_joined(self) -> bytes:
        """The same in one piece, which nothing that is large should be copied for."""
        joined = b"".join(self.out)
        self.out.clear()
        self._unsent = 0
        return joined

    def say(self, record: bytes) -> None:
        """A call of our own, among the answers."""
        self.out.append(mark_of(len(record)))
        self.out.append(record)

    def close(self) -> None:
        self.is_open = False
        self._dispatcher.memory.end(self.peer)
        self.out = []
