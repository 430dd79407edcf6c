"""The lock table: one for all protocols, with values and `now` in, an outcome and effects out [LOCK-1] to [LOCK-10].

It knows no protocol, has no clock, no store and no mutex.  `now` is in seconds, on a clock that never goes back and
goes on over a restart.  The order of the effects is the contract: whoever performs them commits every `Save` and
`Forget` in the order received, and only then answers, offers or refuses.
"""

from collections.abc import Container, Iterable, Mapping

from dittofs.locks import deciding, recovering, reserving
from dittofs.locks.combining import uncover
from dittofs.locks.holdings import FileState
from dittofs.locks.inspecting import Inspector
from dittofs.locks.limits import LockLimits
from dittofs.locks.outcomes import (
    Cancelled,
    Effect,
    Ended,
    Forget,
    Granted,
    LimitReached,
    NotHeld,
    Outcome,
    Reason,
    Released,
    Save,
)
from dittofs.locks.spans import Span, checked, overlaps
from dittofs.locks.spantree import everything
from dittofs.locks.state import LockState, Turn
from dittofs.locks.values import Access, Acquire, Lock, Mode, Origin, Owner, Reserve
from dittofs.model.ids import ClientId, FileRef, LockId, ShareName, Ticket


class LockTable:
    """See the module; the rules are in README.md."""

    __slots__ = ("_state", "inspect")

    def __init__(
        self,
        limits: LockLimits | None = None,
        *,
        node: str = "",
        epoch: int = 1,
        first_lock_id: int = 1,
        first_ticket: int = 1,
    ) -> None:
        """Ids count up from the given ones: give a start that no earlier run has reached."""
        self._state = LockState(
            limits or LockLimits(), Origin(node, epoch), first_lock_id=first_lock_id, first_ticket=first_ticket
        )
        self.inspect = Inspector(self._state)

    def use_lock_ids_from(self, first: int) -> None:
        """Give out no id below this one from now on: a store that was added may have seen those."""
        self._state.next_lock_id = max(self._state.next_lock_id, first)

    # Ranges

    def acquire(self, request: Acquire, now: float) -> tuple[Outcome, list[Effect]]:
        """Take a range, or wait for it."""
        checked(request.span)
        if request.mode is Mode.RESERVATION:
            raise ValueError("a reservation is taken with reserve(), not with acquire()")
        lock = self.take_free(request, now)
        if lock is not None:
            return Granted(lock), [Save(lock)]
        turn = Turn(now)
        decide = deciding.reclaim if request.reclaim else deciding.acquire
        outcome = decide(self._state, turn, request)
        return outcome, self._state.finish(turn)

    def take_free(self, request: Acquire, now: float) -> Lock | None:
        """Take a range if nothing and nobody is concerned by that, as most are: what there is to do is one `Save`.
        None, and nothing changed, if not.  The span has been seen by `acquire` before."""
        return deciding.take_free(self._state, request, now)

    def give_back_alone(self, file: FileRef, owner: Owner, span: Span) -> Lock | None:
        """The way back: all of one lock, and what there is to do is one `Forget`."""
        state = self._state
        known = state.holdings.known_owner(owner)
        held = state.holdings.files.get(file)
        if known is None or held is None:
            return None
        return deciding.give_back_alone(state, held, known, span)

    def test(self, file: FileRef, owner: Owner, span: Span, mode: Mode) -> Lock | None:
        """The lock that would be in the way of this range, at this moment."""
        checked(span)
        held = self._state.holdings.files.get(file)
        if held is None:
            return None
        known = self._state.holdings.known_owner(owner)
        return held.conflict(span.start, span.end, mode, known.owner if known is not None else None)

    def release(
        self, file: FileRef, owner: Owner, span: Span, now: float
    ) -> tuple[Released | LimitReached, list[Effect]]:
        """Give a range back.  What is not held is given back as well; only a split can meet a limit."""
        checked(span)
        state = self._state
        known = state.holdings.known_owner(owner)
        held = state.holdings.files.get(file)
        if known is None or held is None:
            return Released(()), []
        lock = deciding.give_back_alone(state, held, known, span)
        if lock is not None:
            return Released((lock,)), [Forget(lock, Reason.EXPLICIT)]
        turn = Turn(now)
        # Nobody unlocks what he does not know to have: an offer of these bytes has arrived (DESIGN, 6.1).
        for waiter in [waiter for waiter in known.tickets_on(file) if waiter.offer is not None]:
            if overlaps(Span(waiter.start, waiter.end), span):
                deciding.settle(self._state, turn, waiter)
        change = uncover(state.holdings.within(known, file, span), span)
        refusal = state.over_limit(change.growth, held, known)
        if refusal is None and change.gone:
            state.apply(turn, held, known, change, made=None, reason=Reason.EXPLICIT)
        return refusal or Released(tuple(change.gone)), state.finish(turn)

    def cancel(self, file: FileRef, owner: Owner, span: Span, mode: Mode, now: float) -> tuple[Cancelled, list[Effect]]:
        """Take this very request out of the queue, or its offer back [NLM-6]."""
        state, turn = self._state, Turn(now)
        state.remembered.take(owner, file, span, mode, now=now)
        waiter = deciding.same_request(state.holdings.known_owner(owner), file, span, mode)
        outcome = Cancelled(None if waiter is None else waiter.id)
        if waiter is not None:
            state.end(turn, waiter, outcome, Reason.EXPLICIT)
        return outcome, state.finish(turn)

    def upgrade(self, file: FileRef, owner: Owner, span: Span, now: float) -> tuple[Outcome, list[Effect]]:
        """Make what is held exclusive, all of it or nothing [LOCK-4]."""
        return self._convert(file, owner, span, Mode.EXCLUSIVE, now)

    def downgrade(self, file: FileRef, owner: Owner, span: Span, now: float) -> tuple[Outcome, list[Effect]]:
        """Make what is held shared; whoever waited to read goes on."""
        return self._convert(file, owner, span, Mode.SHARED, now)

    def may_read(self, file: FileRef, span: Span, *, owner: Owner | None, clients: Container[ClientId] = ()) -> bool:
        """Does no lock of somebody else forbid it?  To be asked only where locks are mandatory [LOCK-8]."""
        return self._is_free_for(file, span, Mode.SHARED, Access.READ, owner, clients)

    def may_write(self, file: FileRef, span: Span, *, owner: Owner | None, clients: Container[ClientId] = ()) -> bool:
        """The same for a write.  NFSv3 calls carry no lock owner: then locks of `clients` do not count against them."""
        return self._is_free_for(file, span, Mode.EXCLUSIVE, Access.WRITE, owner, clients)

    # Reservations

    def reserve(self, request: Reserve, now: float) -> tuple[Outcome, list[Effect]]:
        """Take a share reservation, or change the one this owner has.  Reservations never wait."""
        turn = Turn(now)
        outcome = reserving.reserve(self._state, turn, request)
        return outcome, self._state.finish(turn)

    def unreserve(self, file: FileRef, owner: Owner, now: float) -> tuple[Released, list[Effect]]:
        """Give the reservation back; there need not be one."""
        state, turn = self._state, Turn(now)
        known = state.holdings.known_owner(owner)
        lock = known and known.reserved and known.reserved.get(file)
        if known is None or not lock:
            return Released(()), []
        state.release(turn, state.holdings.files[file], known, lock, Reason.EXPLICIT)
        return Released((lock,)), state.finish(turn)

    # Offers

    def settle(self, ticket: Ticket, now: float) -> list[Effect]:
        """The owner has confirmed the offer.  One that is settled or withdrawn already is left alone."""
        turn = Turn(now)
        waiter = self._state.tickets.get(ticket)
        if waiter is not None and waiter.offer is not None:
            deciding.settle(self._state, turn, waiter)
        return self._state.finish(turn)

    def refuse_offer(self, ticket: Ticket, now: float, *, is_silent: bool = False) -> list[Effect]:
        """The offer failed, and its owner has what he had before it.

        A definite failure ends the request.  If nothing was heard (`is_silent`), the client is passed over from now on,
        and this request keeps its place like his others [NLM-5].
        """
        state, turn = self._state, Turn(now)
        waiter = state.tickets.get(ticket)
        if waiter is None or waiter.offer is None:
            return []
        if is_silent:
            deciding.pass_over(self._state, turn, waiter.owner.client.id)
        if is_silent and not waiter.is_foreign:
            state.withdraw(turn, waiter, Reason.CALLBACK_FAILED)
            state.await_turn(turn, waiter)
        else:
            state.end(turn, waiter, Ended(Reason.CALLBACK_FAILED), Reason.CALLBACK_FAILED)
        return state.finish(turn)

    # Clients, files and operators

    def client_gone(
        self, client: ClientId, now: float, *, reason: Reason, keep_state: int | None = None
    ) -> list[Effect]:
        """Free everything of a client and forget his waits.  With `keep_state`: only what was taken under another NSM
        state, so that a late SM_NOTIFY spares the locks taken since the reboot [NSM-3]."""
        state, turn = self._state, Turn(now)
        known = state.holdings.clients.get(client)
        if keep_state is None:
            state.remembered.forget_client(client)
        for owner in list(known.owners.values()) if known is not None else []:
            for waiter in owner.all_tickets():
                if keep_state is None or waiter.request.state != keep_state:
                    state.end(turn, waiter, Ended(reason), reason)
            ranges = [lock for file in owner.files() for lock in everything(owner.ranges(file))]
            for lock in [*ranges, *(owner.reserved or {}).values()]:
                if keep_state is None or lock.state != keep_state:
                    state.release(turn, state.holdings.files[lock.file], owner, lock, reason)
        return state.finish(turn)

    def client_silent(self, client: ClientId, now: float) -> list[Effect]:
        """He does not answer: his waiters keep their places and are passed over."""
        turn = Turn(now)
        deciding.pass_over(self._state, turn, client)
        return self._state.finish(turn)

    def client_heard(self, client: ClientId, now: float) -> list[Effect]:
        """He is there again."""
        turn = Turn(now)
        deciding.heed(self._state, turn, client)
        return self._state.finish(turn)

    def file_removed(self, file: FileRef, now: float) -> list[Effect]:
        """A removed file loses its locks, and nobody waits for it [LOCK-10]."""
        state = self._state
        held = state.holdings.files.get(file)
        if held is None:
            return []
        turn = Turn(now)
        for waiter in held.queue.in_order() if held.queue is not None else []:
            state.end(turn, waiter, Ended(Reason.REMOVED), Reason.REMOVED)
        for lock in list(held.locks()):
            self._take_away(turn, held, lock, Reason.REMOVED)
        return state.finish(turn)

    def force_release(
        self, lock_id: LockId, now: float, file: FileRef | None = None
    ) -> tuple[Released | NotHeld, list[Effect]]:
        """An operator takes one lock away.  Whoever knows its file says so: it costs a walk over the locks of that
        file, otherwise over all locks, because an index for it would cost every lock."""
        state, turn = self._state, Turn(now)
        if file is None:
            locks = state.holdings.all_locks()
        else:
            held = state.holdings.files.get(file)
            locks = iter(()) if held is None else held.locks()
        lock = next((lock for lock in locks if lock.id == lock_id), None)
        if lock is None:
            return NotHeld(), []
        self._take_away(turn, state.holdings.files[lock.file], lock, Reason.OPERATOR)
        return Released((lock,)), state.finish(turn)

    # Records, grace and time

    def restore(self, share: ShareName, records: Iterable[Lock], now: float) -> list[Effect]:
        """Take in what a share's store has recorded, once, before the share is served.  What an earlier run of this
        server recorded opens a grace period for this share, and for no other [GRACE-3]."""
        turn = Turn(now)
        recovering.restore(self._state, turn, share, records)
        return self._state.finish(turn)

    def replace(self, file: FileRef, records: Iterable[Lock], now: float) -> list[Effect]:
        """Make one file's locks equal to what its store has, because a commit failed or another node changed them.
        Waiters stay; an offer that is not recorded goes back to its place."""
        return self.replace_files({file: records}, now)

    def replace_files(self, records: Mapping[FileRef, Iterable[Lock]], now: float) -> list[Effect]:
        """The same for all files that one lost commit touched.  Together, because waking somebody while one file is
        put right and another is not could offer what is held there."""
        turn = Turn(now)
        for file in records:
            recovering.replace(self._state, turn, file, records[file])
        return self._state.finish(turn)

    def end_grace(self, share: ShareName, now: float) -> list[Effect]:
        """Drop what was not reclaimed."""
        turn = Turn(now)
        self._end_grace(turn, share)
        return self._state.finish(turn)

    def tick(self, now: float) -> list[Effect]:
        """Do what is due."""
        state, turn = self._state, Turn(now)
        for share in state.grace.expired(now):
            self._end_grace(turn, share)
        state.time_out(turn)
        state.remembered.expire(now)
        return state.finish(turn)

    def next_deadline(self) -> float | None:
        """When `tick` has something to do."""
        return self._state.next_deadline()

    def _convert(self, file: FileRef, owner: Owner, span: Span, mode: Mode, now: float) -> tuple[Outcome, list[Effect]]:
        turn = Turn(now)
        outcome = deciding.convert(self._state, turn, Acquire(file, owner, checked(span), mode))
        return outcome, self._state.finish(turn)

    def _take_away(self, turn: Turn, file: FileState, lock: Lock, reason: Reason) -> None:
        """A whole lock, whatever its owner thinks of it; with an offer goes its ticket."""
        owner = self._state.holdings.holder(lock)
        for waiter in owner.tickets_on(lock.file):
            if waiter.offer is lock:
                self._state.end(turn, waiter, Ended(reason), reason)
                return
        self._state.release(turn, file, owner, lock, reason)

    def _end_grace(self, turn: Turn, share: ShareName) -> None:
        state = self._state
        for lock in state.grace.close(share):
            state.release(
                turn, state.holdings.files[lock.file], state.holdings.holder(lock), lock, Reason.GRACE_EXPIRED
            )

    def _is_free_for(
        self, file: FileRef, span: Span, mode: Mode, access: Access, owner: Owner | None, clients: Container[ClientId]
    ) -> bool:
        held = self._state.holdings.files.get(file)
        if held is None:
            return True
        known = self._state.holdings.known_owner(owner) if owner is not None else None
        for lock in held.blocking(span.start, span.end, mode, known.owner if known is not None else None):
            if lock.owner.client not in clients:
                return False
        for kind, holders in (held.reservations or {}).items():
            if kind.deny & access:
                for holder in holders:
                    if holder is not known and holder.client.id not in clients:
                        return False
        return True
