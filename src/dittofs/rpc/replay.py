"""The duplicate request cache [NFS-5]: what a retransmitted call is answered with, instead of being run again.

A machine without a clock: every event brings `now`.  Calls in progress are kept until they are finished or abandoned,
for forgetting one would let its duplicate run beside it; how many there are is bounded by whoever accepts calls.
Answers are bounded in bytes and by age, and the oldest goes first.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

ENTRY_OVERHEAD: Final = 512
"""Bytes that an answer costs besides its own: key, entry, objects."""

Key = tuple[str, int, bytes, int]
"""What makes two calls the same: address and port of the client, xid, and a hash of the whole record, which tells apart
procedures, and calls of a client that uses a transaction id again."""


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


class _Call:
    """One that is running, as long as it has no reply; then an answer."""

    __slots__ = ("finished", "reply")

    def __init__(self, reply: bytes | None, finished: float):
        self.reply = reply
        self.finished = finished


_RUNNING: Final = _Call(None, 0.0)


class ReplayCache:
    """Answers by key, each from its `finish` until it is too old or in the way."""

    def __init__(self, *, max_bytes: int, max_age_seconds: float) -> None:
        self._max_bytes = max_bytes
        self._max_age_seconds = max_age_seconds
        self._calls: dict[Key, _Call] = {}
        self._finished: deque[Key] = deque()
        """Those with an answer, oldest first."""
        self._oldest = 0.0
        """No answer is older than this."""
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        """What the answers cost, by estimate; never more than `max_bytes`."""
        return self._held_bytes

    @property
    def answers(self) -> int:
        return len(self._finished)

    @property
    def in_progress(self) -> int:
        return len(self._calls) - len(self._finished)

    def begin(self, key: Key, now: float) -> Outcome:
        """A call has come: what is to be done with it?"""
        call = self._calls.get(key)
        if call is not None:
            if call.reply is None:
                return _IN_PROGRESS
            if now - call.finished < self._max_age_seconds:
                return Done(call.reply)
            self._drop_old(now)
        self._calls[key] = _RUNNING
        return _NEW

    def finish(self, key: Key, reply: bytes, now: float) -> None:
        """The call that `begin` called New has its answer, and what the answer says is durable."""
        calls = self._calls
        if calls.get(key) is not _RUNNING:
            raise AssertionError(f"{key} is finished but was not begun")
        if now - self._oldest >= self._max_age_seconds:
            self._drop_old(now)
        cost = len(reply) + ENTRY_OVERHEAD
        if cost > self._max_bytes:
            del calls[key]
            return
        while self._held_bytes + cost > self._max_bytes:
            self._drop_first()
        calls[key] = _Call(reply, now)
        self._finished.append(key)
        self._held_bytes += cost

    def abandon(self, key: Key) -> None:
        """The call that `begin` called New ended without an answer: its retransmission is to run."""
        if self._calls.get(key) is not _RUNNING:
            raise AssertionError(f"{key} is abandoned but was not begun")
        del self._calls[key]

    def _drop_old(self, now: float) -> None:
        self._oldest = now
        while self._finished:
            first = self._calls[self._finished[0]]
            if now - first.finished < self._max_age_seconds:
                self._oldest = first.finished
                return
            self._drop_first()

    def _drop_first(self) -> None:
        call = self._calls.pop(self._finished.popleft())
        assert call.reply is not None, "it was finished"
        self._held_bytes -= len(call.reply) + ENTRY_OVERHEAD
