"""What becomes of a request for a range: granted, queued, refused, reclaimed, converted, settled.

Functions over the state; each writes what it does into the turn, and leaves it to the caller to finish the turn.
"""

from dittofs.locks.combining import Change, cover
from dittofs.locks.holdings import FileState, OwnerState
from dittofs.locks.outcomes import (
    Blocked,
    Deadlock,
    Denied,
    Forget,
    Granted,
    InGrace,
    LimitReached,
    NotHeld,
    Outcome,
    Reason,
    ReclaimFault,
    ReclaimRefused,
)
from dittofs.locks.spans import Span, gaps
from dittofs.locks.state import LockState, Turn
from dittofs.locks.values import Acquire, Lock, Mode
from dittofs.locks.waiting import Waiter, explained, queued
from dittofs.model.ids import ClientId, FileRef


def take_free(state: LockState, request: Acquire, now: float) -> Lock | None:
    """What nearly every request is about: a range in a file that nobody waits for, that conflicts with nothing, and
    beside which its owner has no other.  Nothing goes on after that, so it needs no turn.  None, and nothing changed,
    for any other request."""
    holdings = state.holdings
    ref, wanted = request.file, request.owner
    start, end = request.span
    file, client = holdings.files.get(ref), holdings.clients.get(wanted.client)
    owner = None if client is None else client.owners.get(wanted.id)
    if request.reclaim or state.grace.is_open(ref.share) or (request.wait and len(state.remembered)):
        return None
    if client is not None and client.is_silent:
        return None
    if file is not None:
        if file.queue is not None or file.is_taken(start, end, request.mode):
            return None
        if owner is not None and (owner.tickets is not None or owner.is_beside(ref, start, end)):
            return None
    elif owner is not None and owner.tickets is not None:
        return None
    if not state.has_room(file, client):
        return None
    if file is None:
        file = holdings.file(ref)
    if owner is None:
        owner = holdings.owner(wanted)
    lock = _new_lock(state, file, owner, start, end, now, request)
    holdings.add(file, owner, lock)
    return lock


def give_back_alone(state: LockState, file: FileState, owner: OwnerState, span: Span) -> Lock | None:
    """What nearly every unlock is: all of one lock, for which nobody waits.  None, and nothing changed, for any
    other."""
    if file.queue is not None or owner.tickets is not None:
        return None
    lock = owner.only_range(file.ref, span.start, span.end)
    if lock is None or lock.start < span.start or lock.end > span.end or lock.origin is not state.origin:
        return None
    state.holdings.remove(file, owner, lock)
    state.holdings.drop_if_idle(file, owner)
    return lock


def acquire(state: LockState, turn: Turn, request: Acquire) -> Outcome:
    grace_ends_at = state.grace.ends_at(request.file.share)
    if grace_ends_at is not None:
        return InGrace(grace_ends_at)
    file, owner = state.holdings.file(request.file), state.holdings.owner(request.owner)
    if owner.client.is_silent:
        heed(state, turn, owner.client.id)
    outcome = _decide(state, turn, request, file, owner)
    if type(outcome) is not Granted:
        turn.left.append((file, owner))  # they may have been made for this request alone
    return outcome


def _decide(state: LockState, turn: Turn, request: Acquire, file: FileState, owner: OwnerState) -> Outcome:
    span, mode = request.span, request.mode
    waiter = None if owner.tickets is None else same_request(owner, request.file, span, mode)
    if waiter is not None and waiter.offer is not None:
        return Granted(settle(state, turn, waiter), waiter.id, waiter.queued_at)
    conflict = file.conflict(span.start, span.end, mode, owner.owner)
    if request.wait:
        return _acquire_or_wait(state, turn, request, file, owner, waiter, conflict)
    if conflict is not None:
        return Denied(conflict)
    return _grant(state, turn, file, owner, request)


def _acquire_or_wait(
    state: LockState,
    turn: Turn,
    request: Acquire,
    file: FileState,
    owner: OwnerState,
    waiter: Waiter | None,
    conflict: Lock | None,
) -> Outcome:
    """A blocking request; `waiter` is the same one, sent before and still in the queue [NLM-4]."""
    if waiter is None:
        verdict = state.remembered.take(request.owner, request.file, request.span, request.mode, now=turn.now)
        if verdict is not None:
            return verdict
    if waiter is None and conflict is None and file.queue is None:
        return _grant(state, turn, file, owner, request)
    thought_of = waiter or state.thought_of(request, file, owner, turn.now)
    if conflict is not None or state.graph.held_back_by(thought_of, thought_of) is not None:
        return Blocked(waiter.id, is_new=False) if waiter is not None else _wait(state, turn, thought_of)
    outcome = _grant(state, turn, file, owner, request)
    if waiter is None:
        return outcome
    if isinstance(outcome, LimitReached):
        state.end(turn, waiter, outcome, Reason.REPLACED)
        state.remembered.take(request.owner, request.file, request.span, request.mode, now=turn.now)
        return outcome
    state.fulfil(turn, waiter)
    return Granted(outcome.lock, waiter.id, waiter.queued_at)


def _wait(state: LockState, turn: Turn, waiter: Waiter) -> Outcome:
    queue = waiter.file.queue
    refusal = state.limits.queue_refusal(queue.count if queue is not None else 0)
    if refusal is not None:
        return refusal
    if state.graph.ring(waiter.owner, waiter):
        cycle = state.graph.deadlock(waiter.owner, waiter)
        if cycle:
            return Deadlock(explained(cycle, waiter))
    state.register(waiter)
    state.await_turn(turn, waiter)
    return Blocked(waiter.id, is_new=True)


def _grant(
    state: LockState, turn: Turn, file: FileState, owner: OwnerState, request: Acquire
) -> Granted | LimitReached:
    """Put the range down; nothing is in its way."""
    touching = state.holdings.touching(owner, file.ref, request.span)
    if not touching:
        return _grant_alone(state, turn, file, owner, request)
    for lock in touching:
        if _has_it_all(state, lock, request):
            return Granted(lock)
    change = cover(touching, request.span, request.mode, origin=state.origin, now=turn.now)
    refusal = state.over_limit(change.growth, file, owner)
    if refusal is not None:
        return refusal
    lock = _combined(state, file, owner, change, request)
    state.apply(turn, file, owner, change, made=lock, reason=Reason.REPLACED)
    return Granted(lock)


def _grant_alone(
    state: LockState, turn: Turn, file: FileState, owner: OwnerState, request: Acquire
) -> Granted | LimitReached:
    """What nearly every lock is: a range beside which its owner has no other."""
    refusal = state.over_limit(1, file, owner)
    if refusal is not None:
        return refusal
    start, end = request.span
    lock = _new_lock(state, file, owner, start, end, turn.now, request)
    state.put_down(turn, file, owner, lock)
    return Granted(lock)


def _combined(state: LockState, file: FileState, owner: OwnerState, change: Change, request: Acquire) -> Lock:
    assert change.merged is not None, "a new range is part of its own combination"
    start, end = change.merged
    return _new_lock(state, file, owner, start, end, change.acquired_at, request)


def _new_lock(
    state: LockState, file: FileState, owner: OwnerState, start: int, end: int, acquired_at: float, request: Acquire
) -> Lock:
    return Lock(
        state.new_lock_id(),
        file.ref,
        owner.owner,
        start,
        end,
        request.mode,
        acquired_at,
        state.origin,
        request.state,
        None,
        request.wait,
        request.reclaim,
    )


def _has_it_all(state: LockState, lock: Lock, request: Acquire) -> bool:
    """Is all that is asked for held already, in the same way?"""
    return (
        lock.mode is request.mode
        and lock.start <= request.span.start
        and lock.end >= request.span.end
        and lock.origin == state.origin
        and request.state in (0, lock.state)
        and (lock.is_reclaim or not request.reclaim)
    )


def settle(state: LockState, turn: Turn, waiter: Waiter) -> Lock:
    """Join the offered range with what its owner has.  Limits were asked when it was offered."""
    offer, file, owner = waiter.offer, waiter.file, waiter.owner
    assert offer is not None, "only an offer can be settled"
    waiter.offer = None
    state.let_go(file, owner, offer)
    touching = state.holdings.touching(owner, file.ref, offer.span)
    change = cover(touching, offer.span, offer.mode, origin=state.origin, now=offer.acquired_at)
    lock = _combined(state, file, owner, change, waiter.request)
    state.apply(turn, file, owner, change, made=lock, reason=Reason.REPLACED)
    turn.effects.append(Forget(offer, Reason.REPLACED))
    state.fulfil(turn, waiter)
    return lock


def reclaim(state: LockState, turn: Turn, request: Acquire) -> Outcome:
    """Good if every byte was recorded, at least as strong [GRACE-2]."""
    is_in_grace = state.grace.ends_at(request.file.share) is not None
    owner = state.holdings.known_owner(request.owner)
    file = state.holdings.files.get(request.file)
    strong = [
        lock
        for lock in (state.holdings.within(owner, request.file, request.span) if owner is not None else ())
        if lock.mode is Mode.EXCLUSIVE or request.mode is Mode.SHARED
    ]
    if not is_in_grace:
        # Only a retransmission: its first answer was lost, and may have been what ended grace.
        for lock in strong:
            if _has_it_all(state, lock, request):
                return Granted(lock)
        return ReclaimRefused(ReclaimFault.OUTSIDE_GRACE)
    if owner is None or file is None or gaps(request.span, [lock.span for lock in strong]):
        return ReclaimRefused(ReclaimFault.NOT_RECORDED)
    conflict = file.conflict(request.span.start, request.span.end, request.mode, owner.owner)
    return Denied(conflict) if conflict is not None else _grant(state, turn, file, owner, request)


def convert(state: LockState, turn: Turn, request: Acquire) -> Outcome:
    """Change the type of what is held, all of it or nothing [LOCK-4]."""
    grace_ends_at = state.grace.ends_at(request.file.share)
    if grace_ends_at is not None:
        return InGrace(grace_ends_at)
    owner = state.holdings.known_owner(request.owner)
    file = state.holdings.files.get(request.file)
    if owner is None or file is None:
        return NotHeld()
    held = state.holdings.within(owner, request.file, request.span)
    if gaps(request.span, [lock.span for lock in held]):
        return NotHeld()
    conflict = file.conflict(request.span.start, request.span.end, request.mode, owner.owner)
    return Denied(conflict) if conflict is not None else _grant(state, turn, file, owner, request)


def same_request(owner: OwnerState | None, file: FileRef, span: Span, mode: Mode) -> Waiter | None:
    """The ticket of this very request, waiting or offered."""
    if owner is not None:
        for waiter in owner.tickets_on(file):
            if waiter.is_same(file, span, mode):
                return waiter
    return None


def pass_over(state: LockState, turn: Turn, client: ClientId) -> None:
    """Nobody queues behind a silent client's waiters."""
    known = state.holdings.clients.get(client)
    if known is not None and not known.is_silent:
        known.is_silent = True
        for owner in known.owners.values():
            for waiter in queued(owner):
                state.free(turn, waiter.file, waiter.start, waiter.end)


def heed(state: LockState, turn: Turn, client: ClientId) -> None:
    """The client is there again: its waiters may go, and others queue behind them."""
    known = state.holdings.clients.get(client)
    if known is not None and known.is_silent:
        known.is_silent = False
        for owner in known.owners.values():
            turn.candidates += queued(owner)
            turn.touched.append(owner)
