"""Judges the table by its model: outcomes, every effect where it stands, and all invariants after each step."""

from dataclasses import dataclass, field
from typing import Any

from dittofs.locks.limits import LockLimits
from dittofs.locks.outcomes import (
    Blocked,
    Deadlock,
    Denied,
    Effect,
    Forget,
    Granted,
    InGrace,
    LimitReached,
    Offer,
    Outcome,
    Refuse,
    Save,
    Settled,
)
from dittofs.locks.recording import decoded, encoded
from dittofs.locks.remembering import KEEP_SECONDS
from dittofs.locks.spans import overlaps
from dittofs.locks.table import LockTable
from dittofs.locks.values import Lock, Mode, Owner
from dittofs.model.ids import ClientId, FileId, FileRef, LockId, ShareName, Ticket
from tests.locks.model import CUTS, EXCLUSIVE, SHARED, Cell, Claim, Model, span_of

NODE = "node-a"


@dataclass(frozen=True)
class Shape:
    """How big the world is.  Owners 0 and 1 share a client; owner 2 has owner 0's id on another client."""

    files: int = 3
    owners: int = 4
    cells: int = len(CUTS) - 1
    client_of: tuple[int, ...] = (0, 0, 1, 2)
    share_of: tuple[int, ...] = (0, 0, 1)


def owner_of(number: int, client: int) -> Owner:
    """A new object each time: the table must not depend on getting the same one."""
    return Owner("nlm:host:" + str(0 if number == 2 else number), ClientId(f"client-{client}"), svid=number, oh=b"oh")


def file_of(number: int, share: int) -> FileRef:
    return FileRef(ShareName(f"/share-{share}"), FileId(100 + number))


@dataclass
class Judged:
    """One table, its model, its store."""

    shape: Shape = field(default_factory=Shape)
    limits: LockLimits = field(default_factory=LockLimits)
    now: float = 1000.0

    def __post_init__(self) -> None:
        shape = self.shape
        self.model = Model(shape.files, shape.owners, shape.cells, shape.client_of, shape.share_of)
        self.table = LockTable(self.limits, node=NODE, epoch=1)
        self.store: dict[LockId, bytes] = {}
        self.used_ids: set[LockId] = set()
        self.given: set[Ticket] = set()
        self.ended: set[Ticket] = set()
        self.remembered: dict[tuple[Any, ...], tuple[str, float]] = {}
        self.grace_ends: dict[int, float] = {}
        self.must_end: dict[Ticket, object] = {}
        self.foreign: set[Ticket] = set()
        """Offers that came back with the records of a lost commit: no effect tells of their end."""
        self.before: list[Lock] = []

    # Names

    def file(self, number: int) -> FileRef:
        return file_of(number, self.shape.share_of[number])

    def owner(self, number: int) -> Owner:
        return owner_of(number, self.shape.client_of[number])

    def client(self, number: int) -> ClientId:
        return ClientId(f"client-{number}")

    def number_of(self, owner: Owner) -> int:
        return next(n for n in range(self.shape.owners) if (owner.id, owner.client) == self._key(n))

    def _key(self, number: int) -> tuple[str, str]:
        owner = self.owner(number)
        return owner.id, owner.client

    # Judging outcomes

    def _judge_acquire(self, claim: Claim, wait: bool, outcome: Outcome) -> None:
        model = self.model
        share = model.share_of[claim.file]
        if model.pending(share):
            assert outcome == InGrace(self.grace_ends[share])
            return
        model.silent.discard(model.client_of[claim.owner])
        ticket, is_offered = model.find(claim)
        if ticket is not None and is_offered:
            assert isinstance(outcome, Granted)
            assert outcome.ticket == ticket
            self.expect_end(Ticket(ticket), Settled)
            model.settle(ticket)
            return
        if wait and ticket is None:
            verdict = self.remembered.pop(self._request_key(claim), None)
            if verdict is not None and self.now < verdict[1]:
                assert type(outcome).__name__ == verdict[0]
                return
        holders = model.holders(claim)
        place = max([*model.waiting, *model.offered, 0]) + 1 if ticket is None else ticket
        if not wait:
            if holders:
                self._judge_denial(claim, outcome)
            else:
                self._judge_grant(claim, outcome)
        elif not holders and not model.held_back(place, claim):
            if self._judge_grant(claim, outcome):
                if ticket is not None:
                    assert isinstance(outcome, Granted)
                    assert outcome.ticket == ticket
                    del model.waiting[ticket]
                    self.expect_end(Ticket(ticket), Settled)
            elif ticket is not None:
                del model.waiting[ticket]
                self.expect_end(Ticket(ticket), outcome)
        elif ticket is not None:
            assert outcome == Blocked(Ticket(ticket), is_new=False)
        else:
            self._judge_wait(claim, place, outcome)

    def _judge_wait(self, claim: Claim, place: int, outcome: Outcome) -> None:
        queue = sum(other.file == claim.file for other in self.model.waiting.values())
        if queue >= self.limits.max_waiters_per_file:
            assert outcome == LimitReached("max_waiters_per_file", self.limits.max_waiters_per_file)
        elif self.model.would_deadlock(place, claim):
            assert isinstance(outcome, Deadlock)
            assert outcome.cycle[0].ticket is None
            self._judge_cycle(outcome, refused=None, extra=claim)
        else:
            assert isinstance(outcome, Blocked)
            assert outcome.is_new
            assert outcome.ticket not in self.given, "a ticket was given out twice"
            self.given.add(outcome.ticket)
            self.model.waiting[outcome.ticket] = claim

    def _judge_denial(self, claim: Claim, outcome: Outcome | Lock | None) -> None:
        conflict = outcome.conflict if isinstance(outcome, Denied) else outcome
        assert isinstance(conflict, Lock)
        span = span_of(claim.low, claim.high)
        present = [
            lock
            for lock in self.before
            if lock.mode is not Mode.RESERVATION
            and self.number_of(lock.owner) != claim.owner
            and overlaps(lock.span, span)
            and EXCLUSIVE in (lock.mode, claim.mode)
        ]
        assert conflict in present
        assert conflict.start == min(lock.start for lock in present)

    def _judge_grant(self, claim: Claim, outcome: Outcome, *, is_reclaim: bool = False) -> bool:
        model = self.model
        if model.has_it_all(claim, is_reclaim=is_reclaim):
            assert isinstance(outcome, Granted)
            return True
        after = model.painted(claim, is_reclaim=is_reclaim)
        limit = self._limit(claim.file, claim.owner, after)
        if limit is not None:
            assert outcome == limit
            return False
        assert isinstance(outcome, Granted), outcome
        assert outcome.lock.span[0] <= CUTS[claim.low]
        assert outcome.lock.span[1] >= CUTS[claim.high]
        assert outcome.lock.mode is claim.mode
        model.keep(claim.file, claim.owner, after)
        return True

    def _limit(self, file: int, owner: int, after: list[Cell | None] | None, growth: int = 0) -> LimitReached | None:
        """What the limits say to this change of one owner's cells, or to so many locks more."""
        model = self.model
        if after is not None:
            before = model.own(file, owner)
            growth = -len(model.runs(file, owner))
            model.keep(file, owner, after)
            growth += len(model.runs(file, owner))
            model.keep(file, owner, before)
        if growth <= 0:
            return None
        limits = self.limits
        if model.locks_on(file) + growth > limits.max_per_file:
            return LimitReached("max_per_file", limits.max_per_file)
        if model.locks_of(model.client_of[owner]) + growth > limits.max_per_client:
            return LimitReached("max_per_client", limits.max_per_client)
        if model.locks() + growth > limits.max_total:
            return LimitReached("max_total", limits.max_total)
        return None

    # Judging effects

    def _request_key(self, claim: Claim) -> tuple[Any, ...]:
        return claim.file, claim.owner, claim.low, claim.high, claim.mode

    def _replay(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Save(lock):
                    assert lock.id not in self.used_ids, "an id was used twice"
                    self.used_ids.add(lock.id)
                    self.store[lock.id] = encoded(lock)
                case Forget(lock):
                    assert decoded(self.store.pop(lock.id)) == lock

    def _after(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._replay([effect])
            match effect:
                case Offer(ticket, lock):
                    self._judge_offer(ticket, lock)
                case Settled(ticket):
                    self._end(ticket, Settled)
                case Refuse(ticket, why):
                    self._judge_refusal(ticket, why)
        assert not self.must_end, f"tickets did not end: {self.must_end}"
        for client in list(self.model.silent):
            if not self._is_known(client):
                self.model.silent.discard(client)
        self.check()

    def expect_end(self, ticket: Ticket, how: object) -> None:
        if ticket not in self.foreign:
            self.must_end[ticket] = how

    def _end(self, ticket: Ticket, how: object) -> None:
        assert ticket not in self.ended, "a ticket ended twice"
        assert self.must_end.pop(ticket) == how
        self.ended.add(ticket)

    def _judge_offer(self, ticket: Ticket, lock: Lock) -> None:
        model = self.model
        assert lock.id in self.store, "an offer must be recorded before it is made"
        claim = model.waiting[ticket]
        assert lock.span == span_of(claim.low, claim.high)
        assert lock.mode is claim.mode
        assert not model.holders(claim), "offered what somebody else holds"
        assert not model.held_back(ticket, claim), "offered before an older waiter"
        assert model.client_of[claim.owner] not in model.silent, "offered to a silent client"
        assert self._limit(claim.file, claim.owner, None, 1) is None
        model.offered[ticket] = model.waiting.pop(ticket)

    def _judge_refusal(self, ticket: Ticket, why: object) -> None:
        model = self.model
        if isinstance(why, Deadlock):
            self._judge_cycle(why, refused=ticket, extra=None)
        elif isinstance(why, LimitReached) and ticket in model.waiting:
            assert model.grantable(ticket)
            claim = model.waiting[ticket]
            assert self._limit(claim.file, claim.owner, None, 1) == why
        else:
            self._end(ticket, why)
            return
        claim = model.waiting.pop(ticket)
        self.remembered[self._request_key(claim)] = (type(why).__name__, self.now + KEEP_SECONDS)
        self.expect_end(ticket, why)
        self._end(ticket, why)

    def _judge_cycle(self, deadlock: Deadlock, *, refused: Ticket | None, extra: Claim | None) -> None:
        """Every link is a hard edge that exists, and they close."""
        cycle = deadlock.cycle
        assert len(cycle) >= 2
        for link, following in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            claim = extra if link.ticket is None else self.model.waiting[link.ticket]
            assert claim is not None
            blocker = self.number_of(link.blocker.owner)
            assert self.number_of(link.owner) == claim.owner
            assert link.span == span_of(claim.low, claim.high)
            assert link.file == self.file(claim.file) == link.blocker.file
            assert overlaps(link.blocker.span, link.span)
            assert blocker in self.model.holders(claim)
            assert blocker == self.number_of(following.owner)
        if refused is not None:
            tickets = [link.ticket for link in cycle if link.ticket is not None]
            assert refused == max(tickets), "not the youngest was refused"

    def _is_known(self, client: int) -> bool:
        """Clients without locks and waits are forgotten, and their silence with them."""
        model = self.model
        claims = [*model.waiting.values(), *model.offered.values()]
        owners = [key[1] for key in [*model.held, *model.reserved]] + [claim.owner for claim in claims]
        return any(model.client_of[owner] == client for owner in owners)

    # Invariants

    def check(self) -> None:
        model, inspect = self.model, self.table.inspect
        self._check_ranges()
        assert not model.hard_cycle(), "a deadlock was left standing"
        for ticket in model.waiting:
            assert not model.grantable(ticket), f"waiter #{ticket} is grantable and asleep"
        assert {view.ticket for view in inspect.waiters()} == set(model.waiting)
        assert {view.ticket for view in inspect.offers()} == set(model.offered)
        assert {lock.id: encoded(lock) for lock in inspect.locks()} == self.store, "the store is not the table"
        self._check_counts()
        self._check_rebuilt()

    def _check_rebuilt(self) -> None:
        """A table made of what the store has is the same table."""
        table = LockTable(self.limits, node=NODE, epoch=self.model.epoch, first_lock_id=10**9)
        locks = [decoded(data) for data in self.store.values()]
        for share in sorted({lock.file.share for lock in locks}):
            assert table.restore(share, [lock for lock in locks if lock.file.share == share], self.now) == []
        assert {lock.id: lock for lock in table.inspect.locks()} == {lock.id: lock for lock in locks}
        for file in range(self.shape.files):
            ref = self.file(file)
            assert table.inspect.locks_of_file(ref) == self.table.inspect.locks_of_file(ref)

    def _check_ranges(self) -> None:
        model = self.model
        for file in range(model.files):
            locks = self.table.inspect.locks_of_file(self.file(file))
            assert self.table.inspect.locks_after(self.file(file), (0, 0), 1000) == locks
            assert self.table.inspect.count_of_file(self.file(file)) == len(locks)
            for index, lock in enumerate(locks):
                for other in locks[index + 1 :]:
                    self._check_pair(lock, other)
            for owner in range(model.owners):
                mine = [lock for lock in locks if (lock.owner.id, lock.owner.client) == self._key(owner)]
                ranges = [lock for lock in mine if lock.reservation is None and not lock.is_offered]
                found = [
                    (CUTS.index(lock.start), CUTS.index(lock.end), lock.mode, lock.origin.epoch, lock.state)
                    for lock in ranges
                ]
                runs = model.runs(file, owner)
                assert found == [(low, high, cell.mode, cell.epoch, cell.state) for low, high, cell in runs]
                reserved = [(*lock.reservation, lock.origin.epoch) for lock in mine if lock.reservation is not None]
                expected = model.reserved.get((file, owner))
                assert reserved == ([(expected.access, expected.deny, expected.epoch)] if expected else [])

    @staticmethod
    def _check_pair(lock: Lock, other: Lock) -> None:
        if lock.reservation is not None and other.reservation is not None:
            assert not lock.reservation.access & other.reservation.deny
            assert not lock.reservation.deny & other.reservation.access
        elif lock.reservation is None and other.reservation is None:
            is_same = (lock.owner.id, lock.owner.client) == (other.owner.id, other.owner.client)
            if not is_same and overlaps(lock.span, other.span):
                assert {lock.mode, other.mode} == {SHARED}, "two held locks conflict"

    def _check_counts(self) -> None:
        model, inspect = self.model, self.table.inspect
        assert inspect.held_count() == model.locks()
        for client in set(model.client_of):
            assert inspect.held_count(self.client(client)) == model.locks_of(client)
        for view in inspect.shares():
            locks = inspect.locks_of_share(view.share)
            counted = [sum(lock.mode is mode for lock in locks) for mode in (SHARED, EXCLUSIVE, Mode.RESERVATION)]
            assert [view.shared, view.exclusive, view.reservations] == counted
            files = [file for file in range(model.files) if self.file(file).share == view.share]
            assert view.waiting == sum(claim.file in files for claim in model.waiting.values())
        sizes = inspect.sizes()
        claims = [*model.waiting.values(), *model.offered.values()]
        held = [*model.held, *model.reserved, *((claim.file, claim.owner) for claim in claims)]
        assert sizes.files == len({file for file, _ in held})
        assert sizes.owners == len({owner for _, owner in held})
        assert sizes.clients == len({model.client_of[owner] for _, owner in held})
        graces = {view.share for view in inspect.grace()}
        assert graces == {f"/share-{share}" for share in set(model.share_of) if model.pending(share)}
