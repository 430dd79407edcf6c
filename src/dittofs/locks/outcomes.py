"""What comes out of the lock table: one outcome per request, and effects in an order that is a contract.

Every ticket that was given out with `Blocked` ends with exactly one `Settled` or one `Refuse`.
"""

from enum import Enum

import msgspec

from dittofs.locks.spans import Span
from dittofs.locks.values import Acquire, Lock, Mode, Owner
from dittofs.model.ids import FileRef, Ticket


class Reason(Enum):
    """Why a lock is no longer recorded as it was; the values are the labels of the release metric [OPS-4]."""

    EXPLICIT = "explicit"
    TIMEOUT = "timeout"
    DISCONNECT = "disconnect"
    GRACE_EXPIRED = "grace_expired"
    CRASH = "crash"
    OPERATOR = "operator"
    CALLBACK_FAILED = "callback_failed"
    REMOVED = "removed"
    REPLACED = "replaced"
    """Not a release: its bytes live on in the locks that were saved just before."""


class Granted(msgspec.Struct, frozen=True):
    """Held.  `ticket` is set if the request had been waiting, `queued_at` says since when."""

    lock: Lock
    ticket: Ticket | None = None
    queued_at: float | None = None


class Blocked(msgspec.Struct, frozen=True):
    """In the queue; `is_new` is false when the same request was there already [NLM-4]."""

    ticket: Ticket
    is_new: bool


class Denied(msgspec.Struct, frozen=True):
    """Somebody else's lock is in the way: the one that starts first."""

    conflict: Lock


class Wait(msgspec.Struct, frozen=True):
    """One link of a cycle: `owner` asked for `span` of `file`, and `blocker` holds what conflicts with it."""

    owner: Owner
    file: FileRef
    span: Span
    mode: Mode
    ticket: Ticket | None
    """None for the request that was refused at once."""
    blocker: Lock


class Deadlock(msgspec.Struct, frozen=True):
    """Waiting would never end: the owner of each link waits for the owner of the next, the last for the first."""

    cycle: tuple[Wait, ...]


class InGrace(msgspec.Struct, frozen=True):
    """Only reclaims until then [GRACE-1]."""

    ends_at: float


class ReclaimFault(Enum):
    OUTSIDE_GRACE = "outside grace"
    NOT_RECORDED = "not recorded"


class ReclaimRefused(msgspec.Struct, frozen=True):
    fault: ReclaimFault


class LimitReached(msgspec.Struct, frozen=True):
    """Nothing was changed.  `limit` is the name of the setting, `value` what it is set to [LOCK-6]."""

    limit: str
    value: int


class NotHeld(msgspec.Struct, frozen=True):
    """There is nothing that could be upgraded, downgraded or released by force."""


class TimedOut(msgspec.Struct, frozen=True):
    """`blocking_timeout_seconds` ran out [LOCK-8]."""

    limit_seconds: float


class Released(msgspec.Struct, frozen=True):
    """`locks` is what was held in the span, as it was before."""

    locks: tuple[Lock, ...]


class Cancelled(msgspec.Struct, frozen=True):
    """`ticket` is None if nothing was waiting: then nothing was changed."""

    ticket: Ticket | None


class Ended(msgspec.Struct, frozen=True):
    """Why a ticket ended without its owner having asked for it."""

    reason: Reason


Outcome = Granted | Blocked | Denied | Deadlock | InGrace | ReclaimRefused | LimitReached | NotHeld | TimedOut
Refusal = Deadlock | LimitReached | TimedOut | Cancelled | Ended


class Save(msgspec.Struct, frozen=True):
    """Record this lock, durably, before anything behind it happens."""

    lock: Lock


class Forget(msgspec.Struct, frozen=True):
    """Remove the record of this lock."""

    lock: Lock
    reason: Reason


class Offer(msgspec.Struct, frozen=True):
    """Tell the owner of the ticket that he has it; then `settle` or `refuse_offer`."""

    ticket: Ticket
    lock: Lock
    request: Acquire
    queued_at: float


class Refuse(msgspec.Struct, frozen=True):
    """The ticket is over and its owner has nothing; an offer of it, if any, is withdrawn."""

    ticket: Ticket
    why: Refusal


class Settled(msgspec.Struct, frozen=True):
    """The ticket is over and its owner knows that he holds the lock: stop offering."""

    ticket: Ticket


Effect = Save | Forget | Offer | Refuse | Settled
