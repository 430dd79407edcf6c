"""Grace periods, one per share [GRACE-1] to [GRACE-3]: which recorded bytes still wait for their client.

A lock that an earlier run of this server recorded is *pending*: others see it as held, and its owner must reclaim it.
A share is in grace as long as something is pending in it, so nothing has to be switched off when the last byte is
settled, whichever way that happened.
"""

from typing import NamedTuple

from dittofs.locks.values import Lock
from dittofs.model.ids import ClientId, LockId, ShareName


class RosterEntry(NamedTuple):
    """What one client has still to settle."""

    client: ClientId
    locks: int
    bytes: int


class Period:
    __slots__ = ("ends_at", "pending")

    def __init__(self, ends_at: float) -> None:
        self.ends_at = ends_at
        self.pending: dict[LockId, Lock] = {}


class Grace:
    """The periods that have not run out.  One whose bytes are all settled is over; it is kept until its end, because a
    store that failed may bring a pending lock back."""

    __slots__ = ("_periods",)

    def __init__(self) -> None:
        self._periods: dict[ShareName, Period] = {}

    def open(self, share: ShareName, ends_at: float) -> None:
        """Let recorded locks of this share be pending until then."""
        self._periods.setdefault(share, Period(ends_at))

    def is_open(self, share: ShareName) -> bool:
        """May locks of this share be pending at all?"""
        return share in self._periods

    def close(self, share: ShareName) -> list[Lock]:
        """What was not settled, in the order of the locks' ids."""
        period = self._periods.pop(share, None)
        return [] if period is None else [period.pending[lock_id] for lock_id in sorted(period.pending)]

    def await_reclaim(self, lock: Lock) -> None:
        self._periods[lock.file.share].pending[lock.id] = lock

    def settle(self, lock: Lock) -> None:
        period = self._periods.get(lock.file.share)
        if period is not None:
            period.pending.pop(lock.id, None)

    def ends_at(self, share: ShareName) -> float | None:
        """When grace ends at the latest; None if the share is not in grace."""
        period = self._periods.get(share)
        return period.ends_at if period is not None and period.pending else None

    def expired(self, now: float) -> list[ShareName]:
        return sorted(share for share, period in self._periods.items() if period.ends_at <= now)

    def next_deadline(self) -> float | None:
        return min((period.ends_at for period in self._periods.values()), default=None)

    def shares(self) -> list[ShareName]:
        """The shares that are in grace."""
        return sorted(share for share, period in self._periods.items() if period.pending)

    def roster(self, share: ShareName) -> list[RosterEntry]:
        """Which clients the share still waits for."""
        period = self._periods.get(share)
        locks: dict[ClientId, int] = {}
        sizes: dict[ClientId, int] = {}
        for lock in period.pending.values() if period is not None else ():
            client = lock.owner.client
            locks[client] = locks.get(client, 0) + 1
            sizes[client] = sizes.get(client, 0) + (0 if lock.reservation else lock.end - lock.start)
        return [RosterEntry(client, locks[client], sizes[client]) for client in sorted(locks)]
