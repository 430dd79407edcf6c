"""Every change of what is held, awaited or pending, as small steps, and the one place that goes on after them.

A `Turn` is one call of the table: the steps write down what they did (effects, in order), what became free and who got
something; `finish` then wakes whoever can go and looks for cycles, until nothing moves [LOCK-7].
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import msgspec

from dittofs.locks.combining import Change
from dittofs.locks.grace import Grace
from dittofs.locks.holdings import ClientState, FileState, Holdings, OwnerState
from dittofs.locks.limits import LockLimits
from dittofs.locks.outcomes import (
    Deadlock,
    Effect,
    Forget,
    LimitReached,
    Offer,
    Reason,
    Refusal,
    Refuse,
    Save,
    Settled,
    TimedOut,
)
from dittofs.locks.remembering import Remembered
from dittofs.locks.values import Acquire, Lock, Mode, Origin
from dittofs.locks.waiting import Waiter, WaitGraph, dequeue, enqueue, explained, queued
from dittofs.model.ids import LockId, Ticket

MAX_WITHDRAWN = 1_000
RESERVATION = Mode.RESERVATION


class Turn:
    """What one call has done so far."""

    __slots__ = ("candidates", "effects", "freed", "left", "now", "touched")

    def __init__(self, now: float) -> None:
        self.now = now
        self.effects: list[Effect] = []
        self.freed: list[tuple[FileState, int, int]] = []
        """Where somebody may go now who could not before."""
        self.candidates: list[Waiter] = []
        """Who may go now for another reason."""
        self.touched: list[OwnerState] = []
        """Who got something or began to wait: a new cycle can only lead through one of them."""
        self.left: list[tuple[FileState, OwnerState]] = []
        """Whose last lock or waiter may be gone."""


class LockState:
    """All there is; `table` decides which steps a request takes."""

    __slots__ = (
        "_deadlines",
        "grace",
        "graph",
        "holdings",
        "limits",
        "next_lock_id",
        "next_ticket",
        "origin",
        "remembered",
        "tickets",
        "withdrawn",
    )

    def __init__(self, limits: LockLimits, origin: Origin, *, first_lock_id: int, first_ticket: int) -> None:
        self.limits = limits
        self.origin = origin
        self.holdings = Holdings()
        self.graph = WaitGraph(self.holdings)
        self.grace = Grace()
        self.remembered = Remembered()
        self.tickets: dict[Ticket, Waiter] = {}
        self.withdrawn: dict[LockId, None] = {}
        """The last offers that were taken back: if that cannot be stored, they are taken back again [KEEP-1]."""
        self.next_lock_id = first_lock_id
        self.next_ticket = first_ticket
        self._deadlines: list[tuple[float, Ticket]] = []

    # What is held

    def new_lock_id(self) -> LockId:
        """Never given twice, also not to the pieces of a split lock."""
        self.next_lock_id += 1
        return LockId(self.next_lock_id - 1)

    def is_pending(self, lock: Lock) -> bool:
        """Was it recorded by an earlier run of this server, and not reclaimed since?"""
        return lock.origin.epoch != self.origin.epoch and lock.origin.node == self.origin.node

    def hold(self, file: FileState, owner: OwnerState, lock: Lock) -> None:
        self.holdings.add(file, owner, lock)
        if lock.origin is not self.origin and self.is_pending(lock):
            self.grace.await_reclaim(lock)

    def let_go(self, file: FileState, owner: OwnerState, lock: Lock) -> None:
        self.holdings.remove(file, owner, lock)
        if lock.origin is not self.origin and self.is_pending(lock):
            self.grace.settle(lock)

    def put_down(self, turn: Turn, file: FileState, owner: OwnerState, lock: Lock) -> None:
        """A new lock that touches none of its owner's others: nothing to combine."""
        self.got(turn, file, owner, lock)
        self.hold(file, owner, lock)
        turn.effects.append(Save(lock))

    def release(self, turn: Turn, file: FileState, owner: OwnerState, lock: Lock, reason: Reason) -> None:
        """Take away a whole lock."""
        self.let_go(file, owner, lock)
        turn.effects.append(Forget(lock, reason))
        turn.left.append((file, owner))
        if file.queue is not None and lock.mode is not RESERVATION:
            self.free(turn, file, lock.start, lock.end)

    def apply(
        self, turn: Turn, file: FileState, owner: OwnerState, change: Change, *, made: Lock | None, reason: Reason
    ) -> None:
        """Perform a combination.  What is recorded never has fewer bytes than what is held: first all that is new is
        saved, then all that is old forgotten."""
        for lock in change.gone:
            self.let_go(file, owner, lock)
        new = [
            msgspec.structs.replace(lock, id=self.new_lock_id(), start=piece.start, end=piece.end)
            for lock, piece in change.rest
        ]
        if made is not None:
            new.append(made)
            self.got(turn, file, owner, made)
        for lock in new:
            self.hold(file, owner, lock)
            turn.effects.append(Save(lock))
        turn.effects += [Forget(lock, reason) for lock in change.gone]
        for span in change.freed:
            self.free(turn, file, span.start, span.end)
        turn.left.append((file, owner))

    def swap(self, turn: Turn, file: FileState, owner: OwnerState, *, old: Lock | None, new: Lock) -> None:
        """Put a lock in the place of another, or of none."""
        if old is not None:
            self.let_go(file, owner, old)
        self.hold(file, owner, new)
        turn.effects.append(Save(new))
        if old is not None:
            turn.effects.append(Forget(old, Reason.REPLACED))

    @staticmethod
    def got(turn: Turn, file: FileState, owner: OwnerState, lock: Lock) -> None:
        """What he got can close a cycle if he waits himself and somebody waits for what he got."""
        if file.queue is not None and owner.is_waiting():
            if any(True for _ in file.queue.conflicting(lock.start, lock.end, lock.mode, owner)):
                turn.touched.append(owner)

    def over_limit(self, growth: int, file: FileState, owner: OwnerState) -> LimitReached | None:
        return self.limits.refusal(
            growth=growth, in_file=file.count, of_client=owner.client.held, in_all=self.holdings.total
        )

    def has_room(self, file: FileState | None, client: ClientState | None) -> bool:
        """Is one more lock within all limits?"""
        limits = self.limits
        return (
            (0 if file is None else file.count) < limits.max_per_file
            and (0 if client is None else client.held) < limits.max_per_client
            and self.holdings.total < limits.max_total
        )

    # Who waits

    def free(self, turn: Turn, file: FileState, start: int, end: int) -> None:
        if file.queue is not None:
            turn.freed.append((file, start, end))

    def thought_of(self, request: Acquire, file: FileState, owner: OwnerState, now: float) -> Waiter:
        """The waiter that this request would be, with the ticket it would get."""
        return Waiter(Ticket(self.next_ticket), request, file, owner, now)

    def register(self, waiter: Waiter) -> None:
        """Give the ticket out."""
        self.next_ticket = max(self.next_ticket, waiter.id + 1)
        self.tickets[waiter.id] = waiter
        waiter.owner.add_ticket(waiter)

    def await_turn(self, turn: Turn, waiter: Waiter) -> None:
        """Put into the queue, at the place that the ticket says."""
        enqueue(self.holdings, waiter)
        turn.touched.append(waiter.owner)
        if self.limits.blocking_timeout_seconds > 0:
            if len(self._deadlines) > 2 * len(self.tickets) + 64:
                self._deadlines = [entry for entry in self._deadlines if self._awaits(entry[1])]
                heapify(self._deadlines)
            heappush(self._deadlines, (waiter.queued_at + self.limits.blocking_timeout_seconds, waiter.id))

    def _awaits(self, ticket: Ticket) -> bool:
        waiter = self.tickets.get(ticket)
        return waiter is not None and waiter.is_queued

    def _unregister(self, turn: Turn, waiter: Waiter) -> None:
        del self.tickets[waiter.id]
        waiter.owner.remove_ticket(waiter)
        turn.left.append((waiter.file, waiter.owner))

    def leave_queue(self, turn: Turn, waiter: Waiter) -> None:
        """Nobody queues behind it any more."""
        dequeue(self.holdings, waiter)
        self.free(turn, waiter.file, waiter.start, waiter.end)

    def withdraw(self, turn: Turn, waiter: Waiter, reason: Reason) -> None:
        """Undo an offer: its owner has what he had before it."""
        assert waiter.offer is not None, "only an offer can be withdrawn"
        offer, waiter.offer = waiter.offer, None
        self.withdrawn[offer.id] = None
        if len(self.withdrawn) > MAX_WITHDRAWN:
            del self.withdrawn[next(iter(self.withdrawn))]
        self.release(turn, waiter.file, waiter.owner, offer, reason)

    def end(self, turn: Turn, waiter: Waiter, why: Refusal, reason: Reason) -> None:
        """Take the waiter out, and its offer back; the owner hears of it through the effect, or at his next poll."""
        if waiter.is_queued:
            self.leave_queue(turn, waiter)
        if waiter.offer is not None:
            self.withdraw(turn, waiter, reason)
        self._unregister(turn, waiter)
        if not waiter.is_foreign:
            turn.effects.append(Refuse(waiter.id, why))
        if isinstance(why, (Deadlock, LimitReached, TimedOut)):
            request = waiter.request
            self.remembered.keep(request.owner, request.file, request.span, request.mode, verdict=why, now=turn.now)

    def fulfil(self, turn: Turn, waiter: Waiter) -> None:
        """The owner knows that he has it; the lock itself is put down by the caller."""
        if waiter.is_queued:
            self.leave_queue(turn, waiter)
        self._unregister(turn, waiter)
        if not waiter.is_foreign:
            turn.effects.append(Settled(waiter.id))

    # Going on

    def finish(self, turn: Turn) -> list[Effect]:
        """Wake whoever can go, in order; then look for cycles; until nothing moves."""
        if turn.freed or turn.candidates or turn.touched:
            self._go_on(turn)
        for file, owner in turn.left:
            self.holdings.drop_if_idle(file, owner)
        return turn.effects

    def _go_on(self, turn: Turn) -> None:
        looked_at = 0
        while True:
            if turn.freed or turn.candidates:
                self._wake(turn)
            elif looked_at < len(turn.touched):
                looked_at += 1
                self._look_for_cycles(turn, turn.touched[looked_at - 1])
            else:
                return

    def _wake(self, turn: Turn) -> None:
        found = {waiter.id: waiter for waiter in turn.candidates}
        for file, start, end in turn.freed:
            if file.queue is not None:
                for waiter in file.queue.overlapping(start, end):
                    found[waiter.id] = waiter
        turn.freed.clear()
        turn.candidates.clear()
        last: Waiter | None = None
        for ticket in sorted(found):
            waiter = found[ticket]
            if last is not None and last.shuts_out(waiter):
                continue  # the next in a queue for one range: there may be many of them
            if waiter.is_queued and self.graph.is_grantable(waiter):
                self._offer(turn, waiter)
                last = waiter if waiter.offer is not None else last

    def _offer(self, turn: Turn, waiter: Waiter) -> None:
        refusal = self.over_limit(1, waiter.file, waiter.owner)
        if refusal is not None:
            self.end(turn, waiter, refusal, Reason.REPLACED)
            return
        # Whoever queued behind this request is blocked by the offer from now on: nothing becomes free.
        dequeue(self.holdings, waiter)
        waiter.offer = lock = Lock(
            id=self.new_lock_id(),
            file=waiter.file.ref,
            owner=waiter.owner.owner,
            start=waiter.start,
            end=waiter.end,
            mode=waiter.mode,
            acquired_at=turn.now,
            origin=self.origin,
            state=waiter.request.state,
            was_blocking=True,
            is_offered=True,
        )
        self.hold(waiter.file, waiter.owner, lock)
        turn.effects.append(Save(lock))
        turn.effects.append(Offer(waiter.id, lock, waiter.request, waiter.queued_at))
        self.got(turn, waiter.file, waiter.owner, lock)

    def _look_for_cycles(self, turn: Turn, owner: OwnerState) -> None:
        """A cycle of hard edges costs its youngest waiter; one with a soft edge lets that waiter overtake."""
        if not owner.tickets:
            return
        ring = self.graph.ring(owner)
        if not ring:
            return
        cycle = self.graph.deadlock(owner)
        if cycle:
            youngest = max((waiter for waiter, _ in cycle), key=lambda waiter: waiter.id)
            self.end(turn, youngest, Deadlock(explained(cycle)), Reason.REPLACED)
            turn.touched.append(owner)
        else:
            turn.candidates += [waiter for member in ring for waiter in queued(member)]

    # Time

    def time_out(self, turn: Turn) -> None:
        """End every wait that has lasted too long."""
        limit = self.limits.blocking_timeout_seconds
        while self._deadlines and self._deadlines[0][0] <= turn.now:
            waiter = self.tickets.get(heappop(self._deadlines)[1])
            if waiter is not None and waiter.is_queued:
                self.end(turn, waiter, TimedOut(limit), Reason.TIMEOUT)

    def next_deadline(self) -> float | None:
        while self._deadlines and not self._awaits(self._deadlines[0][1]):
            heappop(self._deadlines)
        grace_end = self.grace.next_deadline()
        if not self._deadlines:
            return grace_end
        wait_end = self._deadlines[0][0]
        return wait_end if grace_end is None else min(wait_end, grace_end)
