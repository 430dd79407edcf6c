"""Watches what the lock table decides: for the metrics [OPS-4], the list of recent deadlocks, and the page, which asks
again when something has changed."""

import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dittofs.locks.inspecting import Inspector
from dittofs.locks.outcomes import (
    Blocked,
    Deadlock,
    Denied,
    Effect,
    Forget,
    Granted,
    InGrace,
    LimitReached,
    Offer,
    Reason,
    ReclaimRefused,
    Refuse,
    Save,
    TimedOut,
    Wait,
)
from dittofs.locks.values import Acquire, Lock, Mode, Reserve
from dittofs.metrics.counting import LOCK_BOUNDS, Count, Histogram
from dittofs.metrics.families import Metrics
from dittofs.model.ids import ShareName

DEADLOCKS_KEPT = 100

STATUSES: dict[type, str] = {
    Granted: "granted",
    Blocked: "blocked",
    Denied: "denied",
    Deadlock: "deadlock",
    InGrace: "grace",
    ReclaimRefused: "reclaim_refused",
    LimitReached: "limit",
    TimedOut: "timeout",
}


EXPLICIT = Reason.EXPLICIT
EXCLUSIVE = Mode.EXCLUSIVE
RESERVATION = Mode.RESERVATION


def _word_of(mode: Mode) -> str:
    """Its value: what an Enum makes of the question takes as long as all the rest of counting a lock."""
    return "exclusive" if mode is EXCLUSIVE else mode.value


class _Usual:
    """What is counted of locks of one kind in one share that are granted at once and given back: nearly all."""

    __slots__ = ("granted", "held", "released")

    def __init__(self, granted: Count, released: Count, held: Histogram):
        self.granted = granted
        self.released = released
        self.held = held


class SeenDeadlock(NamedTuple):
    at: float
    cycle: tuple[Wait, ...]


class LockWatch:
    """A watcher of the lock service."""

    def __init__(self, metrics: Metrics, inspect: Inspector):
        self.changes = 0
        """Grows with every decision that changed something."""
        self.deadlocks: deque[SeenDeadlock] = deque(maxlen=DEADLOCKS_KEPT)
        self._inspect = inspect
        counter, histogram = metrics.counter, metrics.histogram
        self._acquired = counter(
            "dittofs_locks_acquire_total", "Requests for locks by outcome.", "share", "type", "status"
        )
        self._released = counter("dittofs_locks_release_total", "Locks that ended, by reason.", "share", "reason")
        self._blocking = histogram(
            "dittofs_locks_blocking_duration_seconds",
            "How long requests waited that got their lock.",
            "share",
            bounds=LOCK_BOUNDS,
        )
        self._held = histogram(
            "dittofs_locks_hold_duration_seconds", "How long locks were held.", "share", "type", bounds=LOCK_BOUNDS
        )
        self._limits = counter("dittofs_locks_limit_hits_total", "Requests refused by a limit.", "limit_type")
        self._deadlocks = counter("dittofs_locks_deadlock_detected_total", "Deadlocks that were broken.")
        self._deadlocks.add(amount=0)
        self._reclaims = counter(
            "dittofs_locks_reclaim_total", "Locks reclaimed after a restart, by outcome.", "status"
        )
        self._exclusive: dict[ShareName, _Usual] = {}
        self._shared: dict[ShareName, _Usual] = {}
        self._declare_levels(metrics)

    def _declare_levels(self, metrics: Metrics) -> None:
        inspect = self._inspect

        def active() -> Iterable[tuple[tuple[str, ...], float]]:
            for share in inspect.shares():
                yield (share.share, "shared"), share.shared
                yield (share.share, "exclusive"), share.exclusive
                yield (share.share, "reservation"), share.reservations

        def remaining() -> Iterable[tuple[tuple[str, ...], float]]:
            now = time.time()
            yield (), max((max(0.0, grace.ends_at - now) for grace in inspect.grace()), default=0.0)

        metrics.asked("dittofs_locks_active", "gauge", "Locks that are held.", ("share", "type"), active)
        metrics.asked(
            "dittofs_locks_blocked",
            "gauge",
            "Requests that wait.",
            ("share",),
            lambda: [((share.share,), share.waiting) for share in inspect.shares()],
        )
        metrics.asked(
            "dittofs_locks_grace_period_active",
            "gauge",
            "Shares in grace.",
            (),
            lambda: [((), len(inspect.grace()))],
        )
        metrics.asked(
            "dittofs_locks_grace_period_remaining_seconds",
            "gauge",
            "Until the last grace period ends.",
            (),
            remaining,
        )

    def decided(
        self, request: Acquire | Reserve | None, outcome: object | None, effects: Sequence[Effect], now: float
    ) -> None:
        if len(effects) == 1 and self._is_usual(request, outcome, effects[0], now):
            return
        if request is not None:
            self._asked(request, outcome, now)
        for effect in effects:
            if type(effect) is not Save:  # counted as a request that was granted
                self._performed(effect, now)
        if type(outcome) is LimitReached:
            self._limits.add(outcome.limit)
        if effects or type(outcome) is Blocked:
            self.changes += 1

    def _is_usual(self, request: Acquire | Reserve | None, outcome: object | None, effect: Effect, now: float) -> bool:
        """Count a range that was granted at once, or given back; False, and nothing counted, for anything else."""
        kind = type(effect)
        if kind is Save:
            if type(request) is not Acquire or request.reclaim or type(outcome) is not Granted:
                return False
            if outcome.queued_at is not None:
                return False
            self.taken(effect.lock)  # type: ignore[union-attr]
            return True
        if kind is not Forget or request is not None or effect.reason is not EXPLICIT:  # type: ignore[union-attr]
            return False
        self.given_back(effect.lock, now)  # type: ignore[union-attr]
        return True

    def taken(self, lock: Lock) -> None:
        usual = self._exclusive.get(lock.file.share) if lock.mode is EXCLUSIVE else None
        if usual is None:
            usual = self._usual(lock)
        usual.granted.value += 1
        self.changes += 1

    def given_back(self, lock: Lock, now: float) -> None:
        usual = self._exclusive.get(lock.file.share) if lock.mode is EXCLUSIVE else None
        if usual is None:
            usual = self._usual(lock)
        usual.released.value += 1
        seconds = now - lock.acquired_at
        usual.held.observe(max(0.0, seconds))
        self.changes += 1

    def _usual(self, lock: Lock) -> _Usual:
        mode, share = lock.mode, lock.file.share
        kept = self._exclusive if mode is EXCLUSIVE else self._shared
        usual = kept.get(share)
        if usual is None or mode is RESERVATION:
            word = _word_of(mode)
            granted, released = self._acquired.of(share, word, "granted"), self._released.of(share, "explicit")
            usual = _Usual(granted, released, self._held.of(share, word))
            if mode is not RESERVATION:
                kept[share] = usual
        return usual

    def _asked(self, request: Acquire | Reserve, outcome: object | None, now: float) -> None:
        share = request.file.share
        mode = _word_of(request.mode) if isinstance(request, Acquire) else "reservation"
        status = STATUSES.get(type(outcome), "other")
        if request.reclaim:
            self._reclaims.add(status)
        if type(outcome) is Blocked and not outcome.is_new:
            return  # a client that polls for a lock it waits for asks for nothing new [NLM-4]
        self._acquired.add(share, mode, status)
        if type(outcome) is Granted and outcome.queued_at is not None:
            self._blocking.observe(max(0.0, now - outcome.queued_at), share)
        if type(outcome) is Deadlock:
            self._seen(outcome, now)

    def _performed(self, effect: Effect, now: float) -> None:
        kind = type(effect)
        if kind is Forget:
            assert isinstance(effect, Forget), "as its type says"
            if effect.reason is not Reason.REPLACED:
                lock = effect.lock
                self._released.add(lock.file.share, "explicit" if effect.reason is EXPLICIT else effect.reason.value)
                self._held.observe(max(0.0, now - lock.acquired_at), lock.file.share, _word_of(lock.mode))
        elif kind is Offer:
            assert isinstance(effect, Offer), "as its type says"
            share = effect.request.file.share
            self._acquired.add(share, effect.request.mode.value, "granted")
            self._blocking.observe(max(0.0, now - effect.queued_at), share)
        elif kind is Refuse:
            assert isinstance(effect, Refuse), "as its type says"
            if type(effect.why) is Deadlock:
                self._seen(effect.why, now)

    def _seen(self, deadlock: Deadlock, now: float) -> None:
        self._deadlocks.add()
        self.deadlocks.append(SeenDeadlock(now, deadlock.cycle))
