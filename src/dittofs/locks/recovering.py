"""Locks that come from a store: all of a share at the start, or one file's, after a failed commit or a change by
another node.

What the store has is the truth, so taking it in causes no `Save` and no `Forget`, except where a record cannot stay
as it is.
"""

from collections.abc import Iterable

import msgspec

from dittofs.locks.combining import cover
from dittofs.locks.holdings import FileState, OwnerState
from dittofs.locks.outcomes import Forget, Reason
from dittofs.locks.spans import gaps
from dittofs.locks.state import LockState, Turn
from dittofs.locks.values import Acquire, Lock, Mode
from dittofs.locks.waiting import Waiter
from dittofs.model.ids import FileRef, ShareName


def restore(state: LockState, turn: Turn, share: ShareName, records: Iterable[Lock]) -> None:
    """Recorded locks of earlier runs are pending until they are reclaimed; without a grace period they are dropped."""
    ordered = sorted(records, key=lambda record: record.id)
    strangers = {record.file.share for record in ordered} - {share}
    if strangers:
        raise ValueError(f"only locks of {share} can be restored with it, not of {', '.join(sorted(strangers))}")
    if state.limits.grace_seconds > 0 and any(state.is_pending(record) for record in ordered):
        state.grace.open(share, turn.now + state.limits.grace_seconds)
    unsettled = []
    for record in ordered:
        if record.is_offered and state.is_pending(record) and state.grace.is_open(share):
            unsettled.append(record)
        else:
            _take_in(state, turn, record)
    for record in unsettled:
        _fold(state, turn, record)


def replace(state: LockState, turn: Turn, file: FileRef, records: Iterable[Lock]) -> None:
    """Make what is held of this file equal to the records."""
    wanted = {record.id: record for record in records}
    strangers = {record.file for record in wanted.values()} - {file}
    if strangers:
        raise ValueError(f"only locks of {file} can replace its own, not of {sorted(strangers)}")
    held = state.holdings.files.get(file)
    present = {lock.id: lock for lock in held.locks()} if held is not None else {}
    for lock in present.values():
        assert held is not None, "what is present is held"
        if wanted.get(lock.id) != lock:
            _drop(state, turn, held, lock)
    for lock_id in sorted(wanted):
        if present.get(lock_id) != wanted[lock_id]:
            _take_in(state, turn, wanted[lock_id])


def _take_in(state: LockState, turn: Turn, record: Lock) -> None:
    if state.is_pending(record) and not state.grace.is_open(record.file.share):
        turn.effects.append(Forget(record, Reason.GRACE_EXPIRED))
        return
    if record.id in state.withdrawn:
        turn.effects.append(Forget(record, Reason.CALLBACK_FAILED))
        return
    file, owner = state.holdings.file(record.file), state.holdings.owner(record.owner)
    lock = _owned(record, owner)
    state.hold(file, owner, lock)
    if owner.tickets is not None:
        turn.touched.append(owner)
    if lock.is_offered:
        _adopt_offer(state, turn, file, owner, lock)


def _adopt_offer(state: LockState, turn: Turn, file: FileState, owner: OwnerState, lock: Lock) -> None:
    """An offer whose ticket is not ours: another node's, or one whose settlement could not be stored."""
    request = Acquire(file.ref, owner.owner, lock.span, lock.mode, wait=True, state=lock.state)
    waiter = state.thought_of(request, file, owner, turn.now)
    waiter.offer = lock
    waiter.is_foreign = True
    state.register(waiter)


def _fold(state: LockState, turn: Turn, record: Lock) -> None:
    """An offer that was never settled: whether its owner heard of it is unknown, so he may reclaim it, or what he had
    before.  On every byte the stronger of the two is recorded."""
    file, owner = state.holdings.file(record.file), state.holdings.owner(record.owner)
    offered = _owned(record, owner)
    as_strong = [
        lock.span
        for lock in state.holdings.within(owner, file.ref, offered.span)
        if offered.mode is Mode.SHARED or lock.mode is Mode.EXCLUSIVE
    ]
    for part in gaps(offered.span, as_strong):
        touching = state.holdings.touching(owner, file.ref, part)
        change = cover(touching, part, offered.mode, origin=offered.origin, now=offered.acquired_at)
        assert change.merged is not None, "a new range is part of its own combination"
        start, end = change.merged
        made = msgspec.structs.replace(offered, id=state.new_lock_id(), start=start, end=end, is_offered=False)
        state.apply(turn, file, owner, change, made=made, reason=Reason.REPLACED)
    turn.effects.append(Forget(record, Reason.REPLACED))


def _drop(state: LockState, turn: Turn, file: FileState, lock: Lock) -> None:
    """The store does not have it: no effect.  An unrecorded offer was never made: its waiter is back in its place."""
    owner = state.holdings.holder(lock)
    state.let_go(file, owner, lock)
    turn.left.append((file, owner))
    state.free(turn, file, lock.start, lock.end)
    waiter = _offered_by(owner, lock)
    if waiter is not None:
        waiter.offer = None
        if waiter.is_foreign:
            state.fulfil(turn, waiter)
        else:
            state.await_turn(turn, waiter)
            turn.candidates.append(waiter)


def _offered_by(owner: OwnerState, lock: Lock) -> Waiter | None:
    return next((waiter for waiter in owner.tickets_on(lock.file) if waiter.offer is lock), None)


def _owned(record: Lock, owner: OwnerState) -> Lock:
    return record if record.owner is owner.owner else msgspec.structs.replace(record, owner=owner.owner)
