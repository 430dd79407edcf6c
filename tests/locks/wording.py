"""Outcomes and effects in the words of the scenarios."""

from dittofs.locks.outcomes import (
    Blocked,
    Cancelled,
    Deadlock,
    Denied,
    Effect,
    Ended,
    Granted,
    InGrace,
    LimitReached,
    NotHeld,
    Offer,
    ReclaimRefused,
    Refuse,
    Released,
    Settled,
    TimedOut,
)
from dittofs.locks.values import Access, Lock
from dittofs.model.ids import FileRef


def file_text(file: FileRef) -> str:
    return ("" if file.share == "/s" else file.share[1:] + ":") + chr(file.file)


def owner_text(lock: Lock) -> str:
    owner = lock.owner
    return owner.id if owner.id == owner.client else f"{owner.id}@{owner.client}"


def lock_text(lock: Lock) -> str:
    """Who holds what, as far as a denial tells it."""
    if lock.reservation is not None:
        access, deny = lock.reservation
        return f"{owner_text(lock)} {access_text(access)} deny-{access_text(deny)}"
    return f"{owner_text(lock)} {lock.span} {lock.mode.value}"


def access_text(access: Access) -> str:
    return {Access.NONE: "none", Access.READ: "read", Access.WRITE: "write", Access.ALL: "all"}[access]


def record_text(lock: Lock) -> str:
    return lock_text(lock) + (" offered" if lock.is_offered else "")


def outcome_text(outcome: object) -> str:
    match outcome:
        case Granted(_, ticket):
            return "granted" if ticket is None else f"granted #{ticket}"
        case Blocked(ticket, is_new):
            return f"blocked #{ticket}" if is_new else f"still blocked #{ticket}"
        case Denied(conflict):
            return f"denied by {lock_text(conflict)}"
        case Deadlock(cycle):
            links = [f"{link.owner.id} waits for {lock_text(link.blocker)} of {file_text(link.file)}" for link in cycle]
            return "deadlock: " + "; ".join(links)
        case InGrace(ends_at):
            return f"in grace until {ends_at:g}"
        case ReclaimRefused(fault):
            return f"refused: {fault.value}"
        case LimitReached(limit, value):
            return f"limit {limit} {value}"
        case NotHeld():
            return "not held"
        case TimedOut(limit_seconds):
            return f"timed out after {limit_seconds:g}"
        case Released(locks):
            return "released" if locks else "nothing held"
        case Cancelled(ticket):
            return "nothing to cancel" if ticket is None else f"cancelled #{ticket}"
    raise ValueError(f"no words for {outcome}")


def told(effects: list[Effect]) -> list[str]:
    """What others hear of it."""
    said = []
    for effect in effects:
        match effect:
            case Offer(ticket):
                said.append(f"offer #{ticket}")
            case Settled(ticket):
                said.append(f"settled #{ticket}")
            case Refuse(ticket, Ended(reason)):
                said.append(f"end #{ticket} {reason.value}")
            case Refuse(ticket, why):
                said.append(f"refuse #{ticket} {outcome_text(why)}")
    return said
