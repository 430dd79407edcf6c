"""The duplicate request cache [NFS-5]: what a retransmitted call is answered with, instead of being run again.

A machine without a clock: every event brings `now`.  Calls in progress are kept until they are finished or abandoned,
for forgetting one would let its duplicate run beside it; how many there are is bounded by whoever accepts calls.
Answers are bounded in bytes and by age, and the oldest goes first.
"""

from collections import deque
from typing import Final

ENTRY_OVERHEAD: Final = 512
"""Bytes that an answer costs besides its own: key, entry, objects."""

Key = tuple[bytes, int]
"""What makes two calls the same: the xid, and a hash of the client's address and port and of the whole record, which
tells apart procedures, and calls of a client that uses a transaction id again.  As few objects as can be made quickly:
the oldest have left the processor's caches when they are dropped, and each of theirs has to be fetched for that."""


def key_of(address: str, port: int, xid: bytes, record: bytes) -> Key:
    return xid, hash((address, port, record))


class Begun:
    """A call that runs, as long as it has no reply; then an answer.  Whoever began it ends it: `finish`, `abandon`."""

    __slots__ = ("finished", "key", "reply")

    def __init__(self, key: Key):
        self.key = key
        self.reply: bytes | None = None
        self.finished = 0.0


class ReplayCache:
    """Answers by key, each from its `finish` until it is too old or in the way."""

    def __init__(self, *, max_bytes: int, max_age_seconds: float) -> None:
        self._max_bytes = max_bytes
        self._max_age_seconds = max_age_seconds
        self._calls: dict[Key, Begun] = {}
        self._finished: deque[Begun] = deque()
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

    def begin(self, key: Key, now: float) -> Begun | bytes | None:
        """A call has come: what is to be run and ended, or the answer to send again, or None for a duplicate of one in
        progress: drop it, the first one will be answered."""
        begun = Begun(key)
        known = self._calls.setdefault(key, begun)
        if known is begun:
            return begun
        if known.reply is None:
            return None
        if now - known.finished < self._max_age_seconds:
            return known.reply
        self._drop_old(now)
        self._calls[key] = begun
        return begun

    def finish(self, begun: Begun, reply: bytes, now: float) -> None:
        """A call has its answer, and what the answer says is durable."""
        assert begun.reply is None, "it is finished once"
        if now - self._oldest >= self._max_age_seconds:
            self._drop_old(now)
        cost = len(reply) + ENTRY_OVERHEAD
        if cost > self._max_bytes:
            self.abandon(begun)
            return
        held = self._held_bytes + cost
        while held > self._max_bytes:
            held -= self._drop_first()
        self._held_bytes = held
        begun.reply = reply
        begun.finished = now
        self._finished.append(begun)

    def abandon(self, begun: Begun) -> None:
        """A call ended without an answer: its retransmission is to run."""
        assert begun.reply is None, "what has an answer is not abandoned"
        known = self._calls.pop(begun.key, None)
        assert known is begun, "it is ended once"

    def _drop_old(self, now: float) -> None:
        self._oldest = now
        while self._finished:
            first = self._finished[0]
            if now - first.finished < self._max_age_seconds:
                self._oldest = first.finished
                return
            self._held_bytes -= self._drop_first()

    def _drop_first(self) -> int:
        """Forget the oldest answer; what it cost."""
        first = self._finished.popleft()
        del self._calls[first.key]
        assert first.reply is not None, "it was finished"
        return len(first.reply) + ENTRY_OVERHEAD
