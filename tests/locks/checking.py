"""Runs the table and the model side by side: whatever can be asked of the table is asked of both, every outcome is
predicted, and `judging` looks at the rest.  The state machine, the exhaustive walk and the long runs are built on it.
"""

import dataclasses
from collections.abc import Callable

from dittofs.locks.outcomes import (
    Cancelled,
    Denied,
    Ended,
    Granted,
    InGrace,
    LimitReached,
    NotHeld,
    Outcome,
    Reason,
    ReclaimFault,
    ReclaimRefused,
    Released,
    Settled,
    TimedOut,
)
from dittofs.locks.recording import decoded
from dittofs.locks.remembering import KEEP_SECONDS
from dittofs.locks.table import LockTable
from dittofs.locks.values import Access, Acquire, Lock, Mode, Reserve
from dittofs.model.ids import FileRef, LockId, ShareName, Ticket
from tests.locks.judging import NODE, Judged
from tests.locks.model import CUTS, EXCLUSIVE, SHARED, Claim, Reserved, span_of


class Checked(Judged):
    """One table, its model, its store, and everything that can be asked of them."""

    # Requests

    def acquire(
        self, file: int, owner: int, low: int, high: int, mode: Mode, *, wait: bool = False, state: int = 0
    ) -> Outcome:
        claim = Claim(file, owner, low, high, mode, state, self.now)
        request = Acquire(self.file(file), self.owner(owner), span_of(low, high), mode, wait=wait, state=state)
        self.before = self.table.inspect.locks_of_file(self.file(file))
        outcome, effects = self.table.acquire(request, self.now)
        self._judge_acquire(claim, wait, outcome)
        self._after(effects)
        return outcome

    def reclaim(self, file: int, owner: int, low: int, high: int, mode: Mode) -> Outcome:
        model = self.model
        claim = Claim(file, owner, low, high, mode, 0, self.now)
        request = Acquire(self.file(file), self.owner(owner), span_of(low, high), mode, reclaim=True)
        outcome, effects = self.table.acquire(request, self.now)
        if not model.pending(model.share_of[file]):
            if model.has_it_all(claim, is_reclaim=True):
                assert isinstance(outcome, Granted)
            else:
                assert outcome == ReclaimRefused(ReclaimFault.OUTSIDE_GRACE)
        elif all(cell and (cell.mode is EXCLUSIVE or mode is SHARED) for cell in model.own(file, owner)[low:high]):
            self._judge_grant(claim, outcome, is_reclaim=True)
        else:
            assert outcome == ReclaimRefused(ReclaimFault.NOT_RECORDED)
        self._after(effects)
        return outcome

    def test(self, file: int, owner: int, low: int, high: int, mode: Mode) -> Lock | None:
        claim = Claim(file, owner, low, high, mode, 0, self.now)
        self.before = self.table.inspect.locks_of_file(self.file(file))
        conflict = self.table.test(self.file(file), self.owner(owner), span_of(low, high), mode)
        if self.model.holders(claim):
            self._judge_denial(claim, conflict)
        else:
            assert conflict is None
        return conflict

    def mandatory(self, file: int, owner: int, low: int, high: int) -> None:
        span = span_of(low, high)
        for ask, mode, access in (
            (self.table.may_read, SHARED, Access.READ),
            (self.table.may_write, EXCLUSIVE, Access.WRITE),
        ):
            claim = Claim(file, owner, low, high, mode, 0, self.now)
            denied = self.model.reservation_conflict(file, owner, access, 0)
            expected = not self.model.holders(claim) and not denied
            assert ask(self.file(file), span, owner=self.owner(owner)) == expected

    def release(self, file: int, owner: int, low: int, high: int) -> Released | LimitReached:
        model = self.model
        for ticket, claim in sorted(model.offered.items()):
            if claim.file == file and claim.owner == owner and claim.overlaps(low, high):
                self.expect_end(Ticket(ticket), Settled)
                model.settle(ticket)
        after = list(model.own(file, owner))
        had = any(after[low:high])
        after[low:high] = [None] * (high - low)
        outcome, effects = self.table.release(self.file(file), self.owner(owner), span_of(low, high), self.now)
        limit = self._limit(file, owner, after)
        if limit is not None:
            assert outcome == limit
        else:
            assert isinstance(outcome, Released)
            assert bool(outcome.locks) == had
            model.keep(file, owner, after)
        self._after(effects)
        return outcome

    def cancel(self, file: int, owner: int, low: int, high: int, mode: Mode) -> Cancelled:
        claim = Claim(file, owner, low, high, mode, 0, self.now)
        self.remembered.pop(self._request_key(claim), None)
        ticket, is_offered = self.model.find(claim)
        outcome, effects = self.table.cancel(self.file(file), self.owner(owner), span_of(low, high), mode, self.now)
        assert outcome == Cancelled(None if ticket is None else Ticket(ticket))
        if ticket is not None:
            del (self.model.offered if is_offered else self.model.waiting)[ticket]
            self.expect_end(Ticket(ticket), outcome)
        self._after(effects)
        return outcome

    def convert(self, file: int, owner: int, low: int, high: int, mode: Mode) -> Outcome:
        model = self.model
        claim = Claim(file, owner, low, high, mode, 0, self.now)
        self.before = self.table.inspect.locks_of_file(self.file(file))
        ask = self.table.upgrade if mode is EXCLUSIVE else self.table.downgrade
        outcome, effects = ask(self.file(file), self.owner(owner), span_of(low, high), self.now)
        share = model.share_of[file]
        if model.pending(share):
            assert outcome == InGrace(self.grace_ends[share])
        elif not all(model.own(file, owner)[low:high]):
            assert outcome == NotHeld()
        elif model.holders(claim):
            self._judge_denial(claim, outcome)
        else:
            self._judge_grant(claim, outcome)
        self._after(effects)
        return outcome

    def reserve(self, file: int, owner: int, access: int, deny: int, *, is_reclaim: bool = False) -> Outcome:
        model = self.model
        present = model.reserved.get((file, owner))
        request = Reserve(self.file(file), self.owner(owner), Access(access), Access(deny), reclaim=is_reclaim)
        outcome, effects = self.table.reserve(request, self.now)
        share = model.share_of[file]
        in_grace = model.pending(share)
        if in_grace and not is_reclaim:
            assert outcome == InGrace(self.grace_ends[share])
        elif is_reclaim and in_grace and not (present and access & ~present.access == 0 and deny & ~present.deny == 0):
            assert outcome == ReclaimRefused(ReclaimFault.NOT_RECORDED)
        elif (
            is_reclaim
            and not in_grace
            and not (present and present.is_reclaim and (present.access, present.deny) == (access, deny))
        ):
            assert outcome == ReclaimRefused(ReclaimFault.OUTSIDE_GRACE)
        elif model.reservation_conflict(file, owner, access, deny):
            assert isinstance(outcome, Denied)
            assert outcome.conflict.reservation is not None
        elif present is None and (limit := self._limit(file, owner, None, 1)) is not None:
            assert outcome == limit
        else:
            assert isinstance(outcome, Granted)
            is_same = present and (present.access, present.deny, present.epoch) == (access, deny, model.epoch)
            if not is_same:
                model.reserved[file, owner] = Reserved(access, deny, model.epoch, 0, is_reclaim)
        self._after(effects)
        return outcome

    def unreserve(self, file: int, owner: int) -> None:
        outcome, effects = self.table.unreserve(self.file(file), self.owner(owner), self.now)
        assert bool(outcome.locks) == (self.model.reserved.pop((file, owner), None) is not None)
        self._after(effects)

    # Offers, clients, files, operators

    def settle(self, ticket: int) -> None:
        if ticket in self.model.offered:
            self.expect_end(Ticket(ticket), Settled)
            self.model.settle(ticket)
        self._after(self.table.settle(Ticket(ticket), self.now))

    def refuse_offer(self, ticket: int, *, is_silent: bool) -> None:
        model = self.model
        claim = model.offered.pop(ticket, None)
        if claim is not None:
            if is_silent:
                model.silent.add(model.client_of[claim.owner])
            if is_silent and ticket not in self.foreign:
                model.waiting[ticket] = claim
            else:
                self.expect_end(Ticket(ticket), Ended(Reason.CALLBACK_FAILED))
        self._after(self.table.refuse_offer(Ticket(ticket), self.now, is_silent=is_silent))

    def silence(self, client: int) -> None:
        if self._is_known(client):
            self.model.silent.add(client)
        self._after(self.table.client_silent(self.client(client), self.now))

    def hear(self, client: int) -> None:
        self.model.silent.discard(client)
        self._after(self.table.client_heard(self.client(client), self.now))

    def client_gone(self, client: int, *, keep_state: int | None = None) -> None:
        model = self.model
        for tickets in (model.waiting, model.offered):
            for ticket, claim in list(tickets.items()):
                if model.client_of[claim.owner] == client and claim.state != keep_state:
                    del tickets[ticket]
                    self.expect_end(Ticket(ticket), Ended(Reason.CRASH))
        for file, owner in list(model.held):
            if model.client_of[owner] == client:
                cells = model.own(file, owner)
                model.keep(file, owner, [cell if cell and cell.state == keep_state else None for cell in cells])
        for file, owner in list(model.reserved):
            if model.client_of[owner] == client and model.reserved[file, owner].state != keep_state:
                del model.reserved[file, owner]
        if keep_state is None:
            self.remembered = {k: v for k, v in self.remembered.items() if model.client_of[k[1]] != client}
        effects = self.table.client_gone(self.client(client), self.now, reason=Reason.CRASH, keep_state=keep_state)
        self._after(effects)

    def file_removed(self, file: int) -> None:
        model = self.model
        for tickets in (model.waiting, model.offered):
            for ticket, claim in list(tickets.items()):
                if claim.file == file:
                    del tickets[ticket]
                    self.expect_end(Ticket(ticket), Ended(Reason.REMOVED))
        for owner in range(model.owners):
            model.held.pop((file, owner), None)
            model.reserved.pop((file, owner), None)
        self._after(self.table.file_removed(self.file(file), self.now))

    def force_release(self, index: int) -> None:
        """Take away one of the locks there are."""
        model = self.model
        locks = sorted(self.table.inspect.locks(), key=lambda lock: lock.id)
        if not locks:
            outcome, effects = self.table.force_release(LockId(10**9), self.now)
            assert outcome == NotHeld()
            assert effects == []
            return
        lock = locks[index % len(locks)]
        file, owner = lock.file.file - 100, self.number_of(lock.owner)
        if lock.is_offered:
            ticket = next(view.ticket for view in self.table.inspect.offers() if view.offer == lock)
            del model.offered[ticket]
            self.expect_end(ticket, Ended(Reason.OPERATOR))
        elif lock.mode is Mode.RESERVATION:
            del model.reserved[file, owner]
        else:
            low, high = CUTS.index(lock.start), CUTS.index(lock.end)
            cells = list(model.own(file, owner))
            cells[low:high] = [None] * (high - low)
            model.keep(file, owner, cells)
        outcome, effects = self.table.force_release(lock.id, self.now)
        assert outcome == Released((lock,))
        self._after(effects)

    # Time and stores

    def tick(self, seconds: float) -> None:
        model = self.model
        self.now += seconds
        for share, ends_at in list(self.grace_ends.items()):
            if ends_at <= self.now:
                self._drop_pending(share)
        limit = self.limits.blocking_timeout_seconds
        if limit > 0:
            for ticket, claim in list(model.waiting.items()):
                if claim.queued_at + limit <= self.now:
                    del model.waiting[ticket]
                    self.expect_end(Ticket(ticket), TimedOut(limit))
                    self.remembered[self._request_key(claim)] = ("TimedOut", self.now + KEEP_SECONDS)
        self._after(self.table.tick(self.now))
        deadline = self.table.next_deadline()
        assert deadline is None or deadline > self.now, "tick left something undone"

    def end_grace(self, share: int) -> None:
        self._drop_pending(share)
        self._after(self.table.end_grace(ShareName(f"/share-{share}"), self.now))

    def _drop_pending(self, share: int) -> None:
        model = self.model
        self.grace_ends.pop(share, None)
        for file, owner in list(model.held):
            if model.share_of[file] == share:
                cells = model.own(file, owner)
                model.keep(file, owner, [cell if cell and cell.epoch == model.epoch else None for cell in cells])
        for file, owner in list(model.reserved):
            if model.share_of[file] == share and model.reserved[file, owner].epoch != model.epoch:
                del model.reserved[file, owner]

    def restart(self) -> None:
        """A new run over the same store: waiters are lost, everything recorded is pending."""
        model = self.model
        offers = {view.ticket: view.offer.id for view in self.table.inspect.offers() if view.offer is not None}
        for claim in [model.offered[ticket] for ticket in sorted(offers, key=lambda ticket: offers[ticket])]:
            cells = model.own(claim.file, claim.owner)
            weaker = [cell is None or (claim.mode is EXCLUSIVE and cell.mode is SHARED) for cell in cells]
            low = claim.low
            while low < claim.high:
                high = low
                while high < claim.high and weaker[high]:
                    high += 1
                if high > low:
                    part = dataclasses.replace(claim, low=low, high=high)
                    model.keep(claim.file, claim.owner, model.painted(part))
                low = high + 1
        model.offered.clear()
        model.waiting.clear()
        model.silent.clear()
        self.remembered.clear()
        model.epoch += 1
        first = max(self.used_ids, default=0) + 1
        self.table = LockTable(
            self.limits,
            node=NODE,
            epoch=model.epoch,
            first_lock_id=first,
            first_ticket=max(self.given, default=0) + 1,
        )
        self.ended |= self.given
        self.grace_ends.clear()
        for share in sorted(set(model.share_of)):
            records = [lock for lock in map(decoded, self.store.values()) if lock.file.share == f"/share-{share}"]
            if records and self.limits.grace_seconds > 0:
                self.grace_ends[share] = self.now + self.limits.grace_seconds
            if self.limits.grace_seconds == 0:
                self._drop_pending(share)
            self._replay(self.table.restore(ShareName(f"/share-{share}"), records, self.now))
        self.check()

    def replace_from_store(self, file: int) -> None:
        """The store has just what the table has: nothing may move."""
        records = [lock for lock in map(decoded, self.store.values()) if lock.file == self.file(file)]
        assert self.table.replace(self.file(file), records, self.now) == []
        self.check()

    def lose(self, operation: Callable[[], object]) -> None:
        """What the operation wanted recorded is lost, and its files are read again: what was held and offered before
        is back, who got something since waits again in his old place, and who was told that he is done stays done."""
        model, store = self.model, dict(self.store)
        held, reserved, offered = dict(model.held), dict(model.reserved), dict(model.offered)
        operation()
        changed = dict(store.items() ^ self.store.items()).values()
        touched = {decoded(data).file for data in changed}
        wanted: dict[FileRef, list[Lock]] = {file: [] for file in touched}
        for lock in map(decoded, store.values()):
            if lock.file in touched:
                wanted[lock.file].append(lock)
        self.store = {
            lock_id: data
            for source, is_lost in ((self.store, False), (store, True))
            for lock_id, data in source.items()
            if (decoded(data).file in touched) is is_lost
        }
        effects = self.table.replace_files(wanted, self.now)
        numbers = {file.file - 100 for file in touched}
        for now, before in ((model.held, held), (model.reserved, reserved)):
            for key in [key for key in now if key[0] in numbers]:
                del now[key]
            now.update({key: value for key, value in before.items() if key[0] in numbers})
        for ticket, claim in list(model.offered.items()):
            if claim.file in numbers and ticket not in offered:
                model.waiting[ticket] = model.offered.pop(ticket)
        self._adopt(offered)
        for share in set(model.share_of) - set(self.grace_ends):
            self._drop_pending(share)
        self._after(effects)

    def _adopt(self, offered: dict[int, Claim]) -> None:
        """An offer whose end was not recorded is there again, under a ticket that nobody was told of."""
        lost = [claim for ticket, claim in offered.items() if ticket not in self.model.offered]
        for view in self.table.inspect.offers():
            if view.ticket not in self.given:
                request = view.request
                claim = next(
                    claim
                    for claim in lost
                    if (self.file(claim.file), span_of(claim.low, claim.high), claim.mode, claim.owner)
                    == (request.file, request.span, request.mode, self.number_of(request.owner))
                )
                lost.remove(claim)
                self.model.offered[view.ticket] = claim
                self.given.add(view.ticket)
                self.foreign.add(view.ticket)


def spans(cells: int) -> list[tuple[int, int]]:
    return [(low, high) for low in range(cells) for high in range(low + 1, cells + 1)]
