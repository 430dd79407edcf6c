"""How a new range combines with the ranges its owner has already [LOCK-3]: POSIX rules.

This is the one place where SMB will differ (stacked ranges, exact unlock, zero length): its rules become a second
pair of functions with these signatures, chosen by the request; conflicts between owners stay as they are.
"""

from collections.abc import Iterable
from typing import NamedTuple

from dittofs.locks.spans import Span, common, join, subtract
from dittofs.locks.values import Lock, Mode, Origin


class Change(NamedTuple):
    """What to do to one owner's locks of one file."""

    gone: list[Lock]
    rest: list[tuple[Lock, Span]]
    """What is left of locks that are gone: each span becomes a lock of its own, with a new id."""
    merged: Span | None
    """The new lock: the request's range, and the ranges of its type that touch it."""
    acquired_at: float
    freed: list[Span]
    """Where somebody may get a lock now who could not before."""

    @property
    def growth(self) -> int:
        return len(self.rest) + (self.merged is not None) - len(self.gone)


def cover(touching: Iterable[Lock], span: Span, mode: Mode, *, origin: Origin, now: float) -> Change:
    """A new lock over `span`, given the owner's locks that overlap or adjoin it.

    Locks of one type merge if one run of one server recorded them: bytes that wait for their reclaim stay apart from
    those that are held.
    """
    gone: list[Lock] = []
    rest: list[tuple[Lock, Span]] = []
    freed: list[Span] = []
    merged = span
    acquired_at = now
    for lock in touching:
        if lock.mode is mode and lock.origin == origin:
            gone.append(lock)
            merged = join(merged, lock.span)
            acquired_at = min(acquired_at, lock.acquired_at)
            continue
        shared_bytes = common(lock.span, span)
        if shared_bytes is None:
            continue
        gone.append(lock)
        rest += [(lock, piece) for piece in subtract(lock.span, span)]
        if lock.mode is Mode.EXCLUSIVE and mode is Mode.SHARED:
            freed.append(shared_bytes)
    return Change(gone, rest, merged, acquired_at, freed)


def uncover(overlapping: Iterable[Lock], span: Span) -> Change:
    """No lock over `span` any more."""
    gone = list(overlapping)
    rest = [(lock, piece) for lock in gone for piece in subtract(lock.span, span)]
    freed = [taken for lock in gone if (taken := common(lock.span, span)) is not None]
    return Change(gone, rest, None, 0.0, freed)
