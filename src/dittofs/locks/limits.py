"""Bounds of the lock table [LOCK-6]: which there are, and which of them a change would break."""

from dataclasses import dataclass

from dittofs.locks.outcomes import LimitReached


@dataclass(frozen=True, slots=True, kw_only=True)
class LockLimits:
    """The part of the `[locks]` settings that the table reads."""

    grace_seconds: float = 90
    """0: no grace period."""
    max_per_file: int = 1_000
    max_per_client: int = 10_000
    max_total: int = 100_000
    max_waiters_per_file: int = 100
    blocking_timeout_seconds: float = 0
    """0: no limit."""

    def refusal(self, *, growth: int, in_file: int, of_client: int, in_all: int) -> LimitReached | None:
        """The limit that `growth` more locks would break.  What does not grow is never refused: a table that is over
        a limit, because the limit was lowered, can still be reclaimed and emptied."""
        if growth <= 0:
            return None
        if in_file + growth > self.max_per_file:
            return LimitReached("max_per_file", self.max_per_file)
        if of_client + growth > self.max_per_client:
            return LimitReached("max_per_client", self.max_per_client)
        if in_all + growth > self.max_total:
            return LimitReached("max_total", self.max_total)
        return None

    def queue_refusal(self, waiting: int) -> LimitReached | None:
        if waiting >= self.max_waiters_per_file:
            return LimitReached("max_waiters_per_file", self.max_waiters_per_file)
        return None
