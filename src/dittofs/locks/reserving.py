"""What becomes of a share reservation: access and deny modes of whole files [LOCK-2].  Reservations never wait."""

from dittofs.locks.holdings import FileState, OwnerState
from dittofs.locks.outcomes import Denied, Granted, InGrace, Outcome, ReclaimFault, ReclaimRefused
from dittofs.locks.spans import WHOLE
from dittofs.locks.state import LockState, Turn
from dittofs.locks.values import Lock, Mode, Reservation, Reserve


def reserve(state: LockState, turn: Turn, request: Reserve) -> Outcome:
    """An owner has at most one reservation of a file: a second one replaces it."""
    file, owner = state.holdings.file(request.file), state.holdings.owner(request.owner)
    turn.left.append((file, owner))
    wanted = Reservation(request.access, request.deny)
    present = owner.reserved.get(request.file) if owner.reserved is not None else None
    refusal = _refused_by_grace(state, request, wanted, present)
    if refusal is not None:
        return refusal
    conflict = file.reservation_conflict(wanted, owner)
    if conflict is not None:
        return Denied(conflict)
    if present is not None and _has_it(state, present, wanted, request):
        return Granted(present)
    limit = state.over_limit(0 if present is not None else 1, file, owner)
    if limit is not None:
        return limit
    lock = _made(state, turn, file, owner, request, present)
    state.swap(turn, file, owner, old=present, new=lock)
    return Granted(lock)


def _has_it(state: LockState, present: Lock, wanted: Reservation, request: Reserve) -> bool:
    return present.reservation == wanted and present.origin == state.origin and request.state in (0, present.state)


def _made(
    state: LockState, turn: Turn, file: FileState, owner: OwnerState, request: Reserve, present: Lock | None
) -> Lock:
    return Lock(
        id=state.new_lock_id(),
        file=file.ref,
        owner=owner.owner,
        start=WHOLE.start,
        end=WHOLE.end,
        mode=Mode.RESERVATION,
        acquired_at=turn.now if present is None else min(turn.now, present.acquired_at),
        origin=state.origin,
        state=request.state,
        reservation=Reservation(request.access, request.deny),
        is_reclaim=request.reclaim,
    )


def _refused_by_grace(
    state: LockState, request: Reserve, wanted: Reservation, present: Lock | None
) -> InGrace | ReclaimRefused | None:
    """SHARE obeys grace too [GRACE-2]."""
    ends_at = state.grace.ends_at(request.file.share)
    if not request.reclaim:
        return None if ends_at is None else InGrace(ends_at)
    recorded = present.reservation if present is not None else None
    if ends_at is None:
        is_repeated = present is not None and present.is_reclaim and recorded == wanted
        return None if is_repeated else ReclaimRefused(ReclaimFault.OUTSIDE_GRACE)
    if recorded is None or wanted.access & ~recorded.access or wanted.deny & ~recorded.deny:
        return ReclaimRefused(ReclaimFault.NOT_RECORDED)
    return None
