"""The lock table at work: keeps what it decides, tells others about it, and calls it when something is due.

The only impure part of `locks`.  Every change goes through the table first, and is visible at once; its records go into
the batch of this turn of the event loop, and whoever asked gets a `Hold`: his answer leaves when the batch is durable.
Offers, refusals and settlements are told to the listeners after that too.  If the batch is lost, the touched files are
taken from the store again, and nobody has been told anything that is not kept [KEEP-1].
"""

import asyncio
import time
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Protocol

import structlog

from dittofs.locks.agreeing import Agreement, settled
from dittofs.locks.committing import Commits
from dittofs.locks.keeping import Hold, LockRecords, Transactions
from dittofs.locks.limits import LockLimits
from dittofs.locks.outcomes import (
    Blocked,
    Cancelled,
    Effect,
    Forget,
    LimitReached,
    NotHeld,
    Offer,
    Outcome,
    Reason,
    Refuse,
    Released,
    Settled,
)
from dittofs.locks.records import NodeRecord
from dittofs.locks.sharing import SharedLockRecords
from dittofs.locks.spans import Span
from dittofs.locks.table import LockTable
from dittofs.locks.values import Acquire, Lock, Mode, Origin, Owner, Reserve
from dittofs.model.errors import FileError, StoreFailure
from dittofs.model.ids import ClientId, FileRef, LockId, ShareId, ShareName, Ticket
from dittofs.stores.api import StoreError

log = structlog.get_logger()

RELOAD_SECONDS = 0.5
"""How long after a loss the touched files are taken from the store, if nobody asks for them before."""

TICKETS_PER_EPOCH = 2**40


class TicketListener(Protocol):
    """A protocol adapter.  It is called after the effect is durable, and must not raise."""

    def offered(self, offer: Offer) -> None: ...

    def refused(self, refusal: Refuse) -> None: ...

    def settled(self, settled: Settled) -> None: ...


class LockWatcher(Protocol):
    """Metrics and logs.  It is called at once, in order, and must not raise."""

    def taken(self, lock: Lock) -> None:
        """As `decided` of a request that was granted at once, which made this lock and changed nothing else."""

    def given_back(self, lock: Lock, now: float) -> None:
        """As `decided` of a release, which took this lock and changed nothing else."""

    def decided(
        self, request: Acquire | Reserve | None, outcome: object | None, effects: Sequence[Effect], now: float
    ) -> None: ...


class LockService:
    """One for all protocols and shares.  `add_share` comes before any question about a share's files."""

    def __init__(
        self,
        limits: LockLimits,
        origin: Origin,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ):
        self.listeners: list[TicketListener] = []
        self.watchers: list[LockWatcher] = []
        self.origin = origin
        self._monotonic = monotonic
        self._offset = wall() - monotonic()
        self._table = LockTable(
            limits, node=origin.node, epoch=origin.epoch, first_ticket=origin.epoch * TICKETS_PER_EPOCH + 1
        )
        self.inspect = self._table.inspect
        self._commits = Commits(self._tell, self._store_changed)
        self._agreement = Agreement(self._commits, self._take_in, self._reload_later)
        self._doubtful = self._commits.doubtful
        self._in_grace: set[ShareName] = set()
        self._shared: set[ShareName] = set()
        """Shares whose locks other nodes change too: their truth is in the store."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._reload_timer: asyncio.TimerHandle | None = None

    def now(self) -> float:
        """The clock of the table: wall seconds, that never go back and go on over a restart."""
        return self._offset + self._monotonic()

    # Shares

    async def add_share(self, share: ShareName, share_id: ShareId, transactions: Transactions) -> None:
        """Take in what the share's store has recorded.  Before the share is served; other shares go on meanwhile.
        Raises StoreError, of which SplitBrain is one."""
        assert share not in self._commits.records, f"the locks of {share} are here already"
        records = self._commits.stores.get(transactions)
        if records is None:
            kind = SharedLockRecords if transactions.is_shared else LockRecords
            records = kind(transactions, self.origin)
            first = await records.begin()
            self._commits.stores[transactions] = records
            self._table.use_lock_ids_from(first)
        records.shares[share] = share_id
        self._commits.records[share] = records
        if records.is_shared:
            self._shared.add(share)
        locks = await records.load_share(share)
        newest = max((lock.acquired_at for lock in locks), default=0.0)
        self._offset = max(self._offset, newest - self._monotonic())
        now = self.now()
        effects = self._table.restore(share, locks, now)
        await settled(self._done(None, None, effects, None, now))
        ends_at = self.inspect.grace_ends_at(share)
        if ends_at is not None:
            self._in_grace.add(share)
            log.info("grace begins", share=share, locks=len(locks), seconds=round(ends_at - now, 3))
        self._arm()

    async def remove_share(self, share: ShareName) -> None:
        """Let go of a share that is not served any more.  Its records stay; who waits in it is told that it is over."""
        records = self._commits.records.pop(share)
        now = self.now()
        files = {lock.file for lock in self.inspect.locks_of_share(share)}
        files |= {waiter.request.file for waiter in self.inspect.waiters() if waiter.request.file.share == share}
        for file in sorted(files):
            self._tell(self._table.file_removed(file, now), None)
        self._table.end_grace(share, now)
        self._in_grace.discard(share)
        self._shared.discard(share)
        del records.shares[share]
        if not records.shares:
            del self._commits.stores[records.transactions]
            await records.end()

    async def close(self) -> None:
        """The server stops, and says so in every store.  Nothing may be asked after this."""
        for timer in (self._timer, self._reload_timer):
            if timer is not None:
                timer.cancel()
        self._agreement.stop()
        for records in self._commits.stores.values():
            try:
                await records.end()
            except (StoreError, FileError) as error:
                log.error("the store does not hear of the clean stop", reason=str(error))

    def previous_runs(self) -> list[NodeRecord]:
        """What the stores knew of this server when it started [KEEP-3]."""
        return [records.previous for records in self._commits.stores.values() if records.previous is not None]

    # Ranges

    def decides_alone(self, share: ShareName) -> bool:
        """Are the share's locks this server's only?  Then what is decided `_here` is decided."""
        return share not in self._shared

    async def acquire(self, request: Acquire) -> tuple[Outcome, Hold | None]:
        if request.file.share in self._shared:
            return await self._agreement.decide(request.file, lambda: self.acquire_here(request, self.now()))
        return self.acquire_here(request, self.now())

    def acquire_here(self, request: Acquire, now: float) -> tuple[Outcome, Hold | None]:
        file = request.file
        if self._doubtful:
            self._reload(file)
        outcome, effects = self._table.acquire(request, now)
        if type(outcome) is Blocked:
            self._arm()
        return outcome, self._done(request, outcome, effects, file, now)

    def take_free(self, request: Acquire, now: float) -> tuple[bool, Hold | None]:
        """Take a range that nothing and nobody is concerned by, as most are; the request has been made before, of a
        share that this server decides about alone.  False, and nothing done, if it has to be decided as any other."""
        if self._doubtful:
            return False, None
        lock = self._table.take_free(request, now)
        if lock is None:
            return False, None
        for watcher in self.watchers:
            watcher.taken(lock)
        return True, self._commits.write_one(request.file, lock.id, lock)

    async def test(self, file: FileRef, owner: Owner, span: Span, mode: Mode) -> Lock | None:
        if file.share in self._shared:
            await self._agreement.catch_up(file)
        return self.test_here(file, owner, span, mode)

    def test_here(self, file: FileRef, owner: Owner, span: Span, mode: Mode) -> Lock | None:
        if self._doubtful:
            self._reload(file)
        return self._table.test(file, owner, span, mode)

    async def release(self, file: FileRef, owner: Owner, span: Span) -> tuple[Released | LimitReached, Hold | None]:
        if file.share in self._shared:
            return await self._agreement.decide(file, lambda: self.release_here(file, owner, span))
        return self.release_here(file, owner, span)

    def release_here(self, file: FileRef, owner: Owner, span: Span) -> tuple[Released | LimitReached, Hold | None]:
        if self._doubtful:
            self._reload(file)
        now = self._offset + self._monotonic()
        outcome, effects = self._table.release(file, owner, span, now)
        return outcome, self._done(None, outcome, effects, file, now)

    def give_back_alone(self, file: FileRef, owner: Owner, span: Span) -> tuple[bool, Hold | None]:
        """The way back from `take_free`."""
        if self._doubtful:
            return False, None
        lock = self._table.give_back_alone(file, owner, span)
        if lock is None:
            return False, None
        now = self._offset + self._monotonic()
        for watcher in self.watchers:
            watcher.given_back(lock, now)
        return True, self._commits.write_one(file, lock.id, None)

    async def cancel(self, file: FileRef, owner: Owner, span: Span, mode: Mode) -> tuple[Cancelled, Hold | None]:
        if file.share in self._shared:
            return await self._agreement.decide(file, lambda: self._cancel(file, owner, span, mode))
        return self._cancel(file, owner, span, mode)

    def _cancel(self, file: FileRef, owner: Owner, span: Span, mode: Mode) -> tuple[Cancelled, Hold | None]:
        if self._doubtful:
            self._reload(file)
        now = self.now()
        outcome, effects = self._table.cancel(file, owner, span, mode, now)
        return outcome, self._done(None, outcome, effects, file, now)

    async def reserve(self, request: Reserve) -> tuple[Outcome, Hold | None]:
        if request.file.share in self._shared:
            return await self._agreement.decide(request.file, lambda: self._reserve(request))
        return self._reserve(request)

    def _reserve(self, request: Reserve) -> tuple[Outcome, Hold | None]:
        if self._doubtful:
            self._reload(request.file)
        now = self.now()
        outcome, effects = self._table.reserve(request, now)
        return outcome, self._done(request, outcome, effects, request.file, now)

    async def unreserve(self, file: FileRef, owner: Owner) -> tuple[Released, Hold | None]:
        if file.share in self._shared:
            return await self._agreement.decide(file, lambda: self._unreserve(file, owner))
        return self._unreserve(file, owner)

    def _unreserve(self, file: FileRef, owner: Owner) -> tuple[Released, Hold | None]:
        if self._doubtful:
            self._reload(file)
        now = self.now()
        outcome, effects = self._table.unreserve(file, owner, now)
        return outcome, self._done(None, outcome, effects, file, now)

    def may_read(self, file: FileRef, span: Span, *, owner: Owner | None, clients: Container[ClientId] = ()) -> bool:
        """To be asked only where locks are mandatory [LOCK-8]."""
        if self._doubtful:
            self._reload(file)
        return self._table.may_read(file, span, owner=owner, clients=clients)

    def may_write(self, file: FileRef, span: Span, *, owner: Owner | None, clients: Container[ClientId] = ()) -> bool:
        """The same for a write."""
        if self._doubtful:
            self._reload(file)
        return self._table.may_write(file, span, owner=owner, clients=clients)

    # Offers

    async def settle(self, ticket: Ticket) -> Hold | None:
        return await self._changed(lambda now: self._table.settle(ticket, now))

    async def refuse_offer(self, ticket: Ticket, *, is_silent: bool = False) -> Hold | None:
        return await self._changed(lambda now: self._table.refuse_offer(ticket, now, is_silent=is_silent))

    # Clients, files and operators

    async def client_gone(self, client: ClientId, *, reason: Reason, keep_state: int | None = None) -> Hold | None:
        return await self._changed(
            lambda now: self._table.client_gone(client, now, reason=reason, keep_state=keep_state)
        )

    async def client_silent(self, client: ClientId) -> Hold | None:
        return await self._changed(lambda now: self._table.client_silent(client, now))

    async def client_heard(self, client: ClientId) -> Hold | None:
        return await self._changed(lambda now: self._table.client_heard(client, now))

    async def file_removed(self, file: FileRef) -> Hold | None:
        return self.forget_file(file)

    def forget_file(self, file: FileRef) -> Hold | None:
        """A file's last link is gone, in the transaction that is being kept: its records go in the same batch."""
        now = self.now()
        effects = self._table.file_removed(file, now)
        # Nearly every file goes without ever having been locked: nobody hears of that.
        return self._done(None, None, effects, file, now) if effects else self._commits.undurable.get(file)

    async def force_release(
        self, lock_id: LockId, file: FileRef | None = None
    ) -> tuple[Released | NotHeld, Hold | None]:
        lock = self.inspect.lock(lock_id) if self._shared else None
        if lock is not None and lock.file.share in self._shared:
            return await self._agreement.decide(lock.file, lambda: self._force_release(lock_id, file))
        return self._force_release(lock_id, file)

    def _force_release(self, lock_id: LockId, file: FileRef | None) -> tuple[Released | NotHeld, Hold | None]:
        if self._doubtful:
            self._reload(None)
        now = self.now()
        outcome, effects = self._table.force_release(lock_id, now, file)
        return outcome, self._done(None, outcome, effects, None, now)

    async def end_grace(self, share: ShareName) -> Hold | None:
        return await self._changed(lambda now: self._table.end_grace(share, now))

    async def _changed(self, change: Callable[[float], list[Effect]]) -> Hold | None:
        if self._shared:
            return await self._agreement.change(lambda: self._change(change))
        return self._change(change)

    def _change(self, change: Callable[[float], list[Effect]]) -> Hold | None:
        if self._doubtful:
            self._reload(None)
        now = self.now()
        hold = self._done(None, None, change(now), None, now)
        self._arm()
        return hold

    # Effects

    def _done(
        self,
        request: Acquire | Reserve | None,
        outcome: object | None,
        effects: list[Effect],
        file: FileRef | None,
        now: float,
    ) -> Hold | None:
        """Perform what the table said; answers with what the reply has to wait for."""
        for watcher in self.watchers:
            watcher.decided(request, outcome, effects, now)
        if effects:
            if self._in_grace:
                self._note_grace(effects)
            return self._commits.keep(file, effects)
        # What it has seen may not be durable yet: then the answer waits as well.
        return self._commits.undurable.get(file) if file is not None else None

    def _tell(self, effects: Sequence[Effect], error: FileError | None) -> None:
        """An offer whose record is lost was never made, and will be made again; a ticket that is over stays so."""
        for effect in effects:
            for listener in self.listeners:
                match effect:
                    case Offer() if error is None:
                        listener.offered(effect)
                    case Refuse():
                        listener.refused(effect)
                    case Settled():
                        listener.settled(effect)

    def _note_grace(self, effects: Sequence[Effect]) -> None:
        for share in [share for share in self._in_grace if self.inspect.grace_ends_at(share) is None]:
            self._in_grace.discard(share)
            dropped = sum(
                type(effect) is Forget and effect.reason is Reason.GRACE_EXPIRED and effect.lock.file.share == share
                for effect in effects
            )
            log.info("grace is over", share=share, dropped=dropped)

    # A store that fails

    def _store_changed(self, error: FileError | None, is_new: bool) -> None:
        if error is None:
            log.info("locks are stored again")
        elif is_new:
            log.error("locks cannot be stored: new ones are refused, other requests get no answer", reason=str(error))
        self._reload_later()

    def _reload_later(self) -> None:
        if self._reload_timer is None:
            self._reload_timer = asyncio.get_running_loop().call_later(RELOAD_SECONDS, self._reload_due)

    def _reload_due(self) -> None:
        self._reload_timer = None
        try:
            self._reload(None)
        except StoreFailure:
            self._reload_later()
        self._agreement.catch_up_soon()

    def _reload(self, file: FileRef | None) -> None:
        """Make the table equal to the stores again, all files at once.  Raises StoreFailure if a file that is asked
        for, or for None any file, cannot be read."""
        found, failure = self._commits.load_doubtful(file)
        if found:
            self._take_in(found)
        if failure is not None:
            raise failure

    def _take_in(self, found: Mapping[FileRef, Sequence[Lock]]) -> None:
        """These are the locks of these files."""
        now = self.now()
        self._done(None, None, self._table.replace_files(found, now), None, now)
        self._arm()

    # Time

    def _arm(self) -> None:
        """Have the table called when something is due.  A timer that is too early does no harm."""
        deadline = self._table.next_deadline()
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = asyncio.get_running_loop().call_later(max(deadline - self.now(), 0.0), self._due)

    def _due(self) -> None:
        self._timer = None
        now = self.now()
        self._done(None, None, self._table.tick(now), None, now)
        self._arm()
