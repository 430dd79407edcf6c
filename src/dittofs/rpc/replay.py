"""The duplicate request cache [NFS-5]: what a retransmitted call is answered with, instead of being run again.

A machine without a clock: every event brings `now`.  Calls in progress are kept until they are finished or abandoned,
for forgetting one would let its duplicate run beside it; how many there are is bounded by whoever accepts calls.
Answers are bounded in bytes and by age, and the oldest goes first.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, NamedTuple

ENTRY_OVERHEAD: Final = 512
"""Bytes that an answer costs besides its own: key, entry, objects."""

Key = tuple[str, int, int, int, int, int, int]
"""What makes two calls the same: address and port of the client, xid, program, version, procedure, and a hash of the
record, which tells apart calls of a client that uses a transaction id again."""


@dataclass(frozen=True, slots=True)
class New:
    """Run the call, then `finish` or `abandon` it."""


@dataclass(frozen=True, slots=True)
class InProgress:
    """Drop the duplicate: the first one will be answered."""


@dataclass(frozen=True, slots=True)
class Done:
    """Send this again."""

    reply: bytes


Outcome = New | InProgress | Done

_NEW: Final = New()
_IN_PROGRESS: Final = InProgress()


class _Answer(NamedTuple):
    outcome: Done
    cost: int
    finished: float


class ReplayCache:
    """Answers by key, each from its `finish` until it is too old or in the way."""

    def __init__(self, *, max_bytes: int, max_age_seconds: float) -> None:
        self._max_bytes = max_bytes
        self._max_age_seconds = max_age_seconds
        self._running: set[Key] = set()
        self._answers: OrderedDict[Key, _Answer] = OrderedDict()  # in the order they were finished
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        """What the answers cost, by estimate; never more than `max_bytes`."""
        return self._held_bytes

    @property
    def answers(self) -> int:
        return len(self._answers)

    @property
    def in_progress(self) -> int:
        return len(self._running)

    def begin(self, key: Key, now: float) -> Outcome:
        """A call has come: what is to be done with it?"""
        self._drop_old(now)
        answer = self._answers.get(key)
        if answer is not None:
            return answer.outcome
        if key in self._running:
            return _IN_PROGRESS
        self._running.add(key)
        return _NEW

    def finish(self, key: Key, reply: bytes, now: float) -> None:
        """The call that `begin` called New has its answer, and what the answer says is durable."""
        assert key in self._running, f"{key} is finished but was not begun"
        self._running.remove(key)
        self._drop_old(now)
        cost = len(reply) + ENTRY_OVERHEAD
        if cost > self._max_bytes:
            return
        while self._held_bytes + cost > self._max_bytes:
            self._drop_first()
        self._answers[key] = _Answer(Done(reply), cost, now)
        self._held_bytes += cost

    def abandon(self, key: Key) -> None:
        """The call that `begin` called New ended without an answer: its retransmission is to run."""
        assert key in self._running, f"{key} is abandoned but was not begun"
        self._running.remove(key)

    def _drop_old(self, now: float) -> None:
        while self._answers:
            first = next(iter(self._answers.values()))
            if now - first.finished < self._max_age_seconds:
                return
            self._drop_first()

    def _drop_first(self) -> None:
        _, answer = self._answers.popitem(last=False)
        self._held_bytes -= answer.cost
