"""Answers that are still true: a question that was answered before, in the same bytes, is not worked out again.

Clients ask the same few things over and over (GETATTR, ACCESS, LOOKUP).  An answer to a call that changes nothing is
kept under the bytes of the call, but for its xid, per client address, together with a witness: whoever made the answer
says through it whether everything that it was made from is still the same.  Nothing has to be thrown away when
something changes.  Only what is asked a second time is kept: who walks over a million files asks for each of them once.

Who reads a file asks for one piece after the other.  Of such a series is kept what its questions have in common, and
who can answer the next one.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

from dittofs.rpc.records import mark_of
from dittofs.xdr.types import Chunks

QUESTION_BYTES_MAX: Final = 512
ANSWER_BYTES_MAX: Final = 1024
ANSWERS_KEPT: Final = 32_768
"""Of all clients together."""
QUESTIONS_NOTED: Final = 65_536


SERIES_BYTES: Final = 12
"""So long is what differs between the questions of a series: an offset and a count."""

Again = Callable[[bytes], Any]
"""Takes the last bytes of one more question of a series; the result, or None if it has to be asked as any other."""


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
    """Questions that differ in their last bytes: who reads a file asks for one piece after the other."""

    __slots__ = ("again", "counts", "encode", "witness")

    def __init__(self, again: Again, witness: Witness, counts: Any, encode: Callable[[Chunks, Any], None]):
        self.again = again
        self.witness = witness
        self.counts = counts
        self.encode = encode


Answers = dict[bytes, Remembered]
"""Those of one client, by what they answer."""

AllSeries = dict[bytes, Series]
"""Those of one client, by what their questions have in common."""


class AnswerMemory:
    """The answers to all clients."""

    __slots__ = ("_asked", "_by_client", "_kept", "_limit", "_series")

    def __init__(self, *, limit: int = ANSWERS_KEPT):
        self._by_client: dict[str, Answers] = {}
        self._limit = limit
        self._kept = 0
        self._asked: set[int] = set()
        self._series: dict[str, AllSeries] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_client.values())) + sum(map(len, self._series.values()))

    def of(self, client: str) -> Answers:
        """For as long as the client has connections; then `leave`."""
        return self._by_client.setdefault(client, {})

    def series_of(self, client: str) -> AllSeries:
        """For as long."""
        return self._series.setdefault(client, {})

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

    def keep_series(self, client: str, beginning: bytes, series: Series) -> None:
        all_series = self._series.get(client)
        if all_series is None or len(beginning) > QUESTION_BYTES_MAX:
            return
        if beginning not in all_series:
            if self._kept >= self._limit:
                self.forget()
            self._kept += 1
        all_series[beginning] = series

    def forget(self) -> None:
        """Everything: the memory is full, or who may ask what has changed."""
        for answers in self._by_client.values():
            answers.clear()
        for series in self._series.values():
            series.clear()
        self._kept = 0
