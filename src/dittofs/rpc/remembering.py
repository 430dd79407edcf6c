"""Answers that are still true: a question that was answered before, in the same bytes, is not worked out again.

Clients ask the same few things over and over (GETATTR, ACCESS, LOOKUP).  An answer to a call that changes nothing is
kept under the bytes of the call, but for its xid, per client address, together with a witness: whoever made the answer
says through it whether everything that it was made from is still the same.  Nothing has to be thrown away when
something changes.  Only what is asked a second time is kept: who walks over a million files asks for each of them once.

Who reads a file asks for one piece after the other.  Of such a series is kept what its questions have in common, and
who can answer the next one.

Some questions begin with a cookie, which the answer only gives back, and ask for a change: a lock, say.  Such a change
is never told again, but done again; what is kept is who can do it, found by all of the question but the cookie.
"""

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from dittofs.rpc.records import LAST_FRAGMENT, mark_of
from dittofs.xdr.types import Chunks

if TYPE_CHECKING:
    from dittofs.rpc.program import Hold, Peer

QUESTION_BYTES_MAX: Final = 512
ANSWER_BYTES_MAX: Final = 1024
ANSWERS_KEPT: Final = 32_768
"""Of all clients together."""
QUESTIONS_NOTED: Final = 65_536


SERIES_BYTES: Final = 12
"""So long is what differs between the questions of a series: an offset and a count."""


class Again(Protocol):
    """Who can answer the questions of a series."""

    before: bytes
    """What all their results begin with, encoded."""

    def again(self, rest: bytes, out: Chunks) -> int:
        """Take the last bytes of one more question, and append what follows `before` in its result; how long that is,
        or 0 if it has to be asked as any other."""


class Witness(Protocol):
    """Knows what an answer was made from."""

    def is_unchanged(self) -> bool: ...


class Remembered:
    """One answer, as it goes out: between mark and tail comes the xid of the call.  `counts` is where the dispatcher
    counts calls of that procedure."""

    __slots__ = ("counts", "mark", "tail", "witness")

    def __init__(self, tail: bytes, witness: Witness, counts: Any):
        self.mark = mark_of(4 + len(tail))
        self.tail = tail
        self.witness = witness
        self.counts = counts


class Series:
    """Questions that differ in their last bytes: who reads a file asks for one piece after the other.  `beginning` is
    what they have in common, but for the transaction id; `before` how all the answers begin, behind theirs."""

    __slots__ = ("again", "before", "beginning", "counts", "mark", "question_bytes", "take_apart", "witness")

    def __init__(self, beginning: bytes, again: Again, witness: Witness, counts: Any, *, before: bytes):
        self.beginning = beginning
        self.again = again.again
        self.witness = witness
        self.counts = counts
        self.before = before + again.before
        questions = struct.Struct(f">I4s{len(beginning)}s{SERIES_BYTES}s")
        self.take_apart = questions.unpack_from
        """(data, position) to the mark, the transaction id, the beginning and the rest of a question."""
        self.question_bytes = questions.size
        self.mark = LAST_FRAGMENT + questions.size - 4
        """In front of each of them."""


class Doing(Protocol):
    """Who can do once more what was asked."""

    hold: "Hold | None"
    """What the answer to the last time has to wait for."""

    def again(self) -> bool:
        """Do it, if it comes out as it did when this was kept; False, and nothing done, if the question has to be asked
        as any other."""


class Question(NamedTuple):
    """A call whose arguments begin with a cookie."""

    text: bytes
    """Without the transaction id, and without the cookie."""
    cookie: bytes
    """As it is encoded, its length in front."""
    args_at: int
    """Where it stood."""


def question_of(record: bytes, args_at: int, cookie_length: int) -> Question | None:
    """A call that was decoded; None if its cookie is padded, for the padding is not to be told back."""
    if cookie_length & 3:
        return None
    rest_at = args_at + 4 + cookie_length
    return Question(record[4:args_at] + record[rest_at:], record[args_at:rest_at], args_at)


class Repeat:
    """A question that comes again and again with other cookies.  Its answer is `mark`, the transaction id, `before`,
    the cookie as it is encoded, and `tail`, which is counted in `counts` as `status`."""

    __slots__ = ("before", "cookie_length", "counts", "doing", "mark", "status", "tail")

    def __init__(self, doing: Doing, *, before: bytes, cookie: bytes, tail: bytes, counts: Any, status: str):
        """With the cookie, as it is encoded, that it came with last: another one has to be as long."""
        self.doing = doing
        self.cookie_length = cookie[:4]
        self.counts = counts
        self.mark = mark_of(4 + len(before) + len(cookie) + len(tail))
        self.before = before
        self.tail = tail
        self.status = status


class Repeats:
    """What one connection asks again and again, by the question without its transaction id and cookie.  All of its
    cookies are taken to be as long as the last one that was kept, and to stand at the same place: they nearly always
    do, and a question that is cut elsewhere is not among these."""

    __slots__ = ("args_at", "by_question", "rest_at")

    def __init__(self) -> None:
        self.by_question: dict[bytes, Repeat] = {}
        self.args_at = 0
        """Where the cookie begins with its length, counted from the transaction id; 0: nothing was kept yet."""
        self.rest_at = 0


Answers = dict[bytes, Remembered]
"""Those of one client, by what they answer."""

AllSeries = dict[bytes, Series]
"""Those of one client, by what their questions have in common."""


class AnswerMemory:
    """The answers to all clients."""

    __slots__ = ("_asked", "_by_client", "_kept", "_limit", "_repeats", "_series")

    def __init__(self, *, limit: int = ANSWERS_KEPT):
        self._by_client: dict[str, Answers] = {}
        self._limit = limit
        self._kept = 0
        self._asked: set[int] = set()
        self._series: dict[str, AllSeries] = {}
        self._repeats: dict[Peer, Repeats] = {}

    def __len__(self) -> int:
        told = sum(map(len, self._by_client.values())) + sum(map(len, self._series.values()))
        return told + sum(len(repeats.by_question) for repeats in self._repeats.values())

    def of(self, client: str) -> Answers:
        """For as long as the client has connections; then `leave`."""
        return self._by_client.setdefault(client, {})

    def series_of(self, client: str) -> AllSeries:
        """For as long."""
        return self._series.setdefault(client, {})

    def repeats_of(self, peer: "Peer") -> Repeats:
        """For as long as this connection is open; then `end`."""
        return self._repeats.setdefault(peer, Repeats())

    def end(self, peer: "Peer") -> None:
        repeats = self._repeats.pop(peer, None)
        if repeats is not None:
            self._kept -= len(repeats.by_question)

    def leave(self, client: str) -> None:
        self._kept -= len(self._by_client.pop(client, ())) + len(self._series.pop(client, ()))

    def is_asked_again(self, question: bytes) -> bool:
        """Whether somebody has asked it lately.  A guess: a collision costs room, and nothing else."""
        number = hash(question)
        if number in self._asked:
            return True
        if len(self._asked) >= QUESTIONS_NOTED:
            self._asked.clear()
        self._asked.add(number)
        return False

    def keep(self, answers: Answers, question: bytes, answer: Remembered) -> None:
        if len(question) > QUESTION_BYTES_MAX or len(answer.tail) > ANSWER_BYTES_MAX:
            return
        if question not in answers:
            if self._kept >= self._limit:
                self.forget()
            self._kept += 1
        answers[question] = answer

    def keep_series(self, client: str, series: Series) -> None:
        beginning, all_series = series.beginning, self._series.get(client)
        if all_series is None or len(beginning) > QUESTION_BYTES_MAX:
            return
        if beginning not in all_series:
            if self._kept >= self._limit:
                self.forget()
            self._kept += 1
        all_series[beginning] = series

    def keep_repeat(self, peer: "Peer", question: Question, repeat: Repeat) -> None:
        repeats = self._repeats.get(peer)
        if repeats is None or len(question.text) > QUESTION_BYTES_MAX:
            return
        if question.text not in repeats.by_question:
            if self._kept >= self._limit:
                self.forget()
            self._kept += 1
        repeats.by_question[question.text] = repeat
        repeats.args_at = question.args_at
        repeats.rest_at = question.args_at + len(question.cookie)

    def forget(self) -> None:
        """Everything: the memory is full, or who may ask what has changed."""
        for answers in self._by_client.values():
            answers.clear()
        for series in self._series.values():
            series.clear()
        for repeats in self._repeats.values():
            repeats.by_question.clear()
        self._kept = 0
