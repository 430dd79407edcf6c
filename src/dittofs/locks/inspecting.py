"""What the table knows, as values: for the lock explorer, the metrics and the log [OPS-3].  Changes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice

from dittofs.locks.grace import RosterEntry
from dittofs.locks.spantree import behind, everything
from dittofs.locks.state import LockState
from dittofs.locks.values import Acquire, Lock, Owner
from dittofs.locks.waiting import Waiter, older
from dittofs.model.ids import ClientId, FileRef, LockId, ShareName, Ticket


@dataclass(frozen=True, slots=True)
class WaitView:
    """A request that waits, and exactly what it waits for."""

    ticket: Ticket
    request: Acquire
    queued_at: float
    offer: Lock | None
    """Set if it is offered: then it waits for nothing but its client's answer."""
    is_passed_over: bool
    """Its client is silent."""
    blockers: tuple[Lock, ...]
    behind: tuple[Ticket, ...]
    """Older waiters it queues behind."""
    overtakes: tuple[Ticket, ...]
    """Older waiters it conflicts with but need not wait for, because they wait for it."""


@dataclass(frozen=True, slots=True)
class WaitEdge:
    """`owner` waits for `waits_for`, by a lock of his, or by an older request of his if `lock` is None."""

    ticket: Ticket
    owner: Owner
    waits_for: Owner
    lock: Lock | None


@dataclass(frozen=True, slots=True)
class ShareView:
    share: ShareName
    shared: int
    exclusive: int
    reservations: int
    waiting: int


@dataclass(frozen=True, slots=True)
class GraceView:
    share: ShareName
    ends_at: float
    roster: tuple[RosterEntry, ...]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many things the table keeps in memory."""

    locks: int
    files: int
    clients: int
    owners: int
    tickets: int
    remembered: int


class Inspector:
    """Questions to a lock table."""

    __slots__ = ("_state",)

    def __init__(self, state: LockState) -> None:
        self._state = state

    def lock(self, lock_id: LockId) -> Lock | None:
        return next((lock for lock in self._state.holdings.all_locks() if lock.id == lock_id), None)

    def locks(self) -> Iterator[Lock]:
        """Every lock, offers and locks that wait for their reclaim included."""
        return self._state.holdings.all_locks()

    def files(self) -> list[FileRef]:
        """Every file with locks or waiters: for whoever lists locks a few at a time, while they go on changing."""
        return list(self._state.holdings.files)

    def locks_of_file(self, file: FileRef) -> list[Lock]:
        """In the order of their starts."""
        held = self._state.holdings.files.get(file)
        return sorted(held.locks(), key=_place) if held is not None else []

    def locks_after(self, file: FileRef, place: tuple[int, int], limit: int) -> list[Lock]:
        """At most so many of them, from behind a place, which is a start and an id: however many there are in all."""
        held = self._state.holdings.files.get(file)
        if held is None:
            return []
        reserved = [lock for holders in (held.reservations or {}).values() for lock in holders.values()]
        parts = (
            behind(held.exclusive, place),
            behind(held.shared, place),
            sorted((lock for lock in reserved if _place(lock) > place), key=_place),
        )
        return list(islice(merge(*parts, key=_place), limit))

    def count_of_file(self, file: FileRef) -> int:
        held = self._state.holdings.files.get(file)
        return held.count if held is not None else 0

    def locks_of_share(self, share: ShareName) -> list[Lock]:
        return [lock for lock in self.locks() if lock.file.share == share]

    def locks_of_client(self, client: ClientId) -> list[Lock]:
        known = self._state.holdings.clients.get(client)
        return [lock for owner in known.owners.values() for lock in self.locks_of_owner(owner.owner)] if known else []

    def locks_of_owner(self, owner: Owner) -> list[Lock]:
        known = self._state.holdings.known_owner(owner)
        if known is None:
            return []
        ranges = [lock for file in known.files() for lock in everything(known.ranges(file))]
        offers = [waiter.offer for waiter in known.all_tickets() if waiter.offer is not None]
        return [*ranges, *(known.reserved or {}).values(), *offers]

    def is_pending(self, lock: Lock) -> bool:
        """Does it still wait for its reclaim?"""
        return self._state.is_pending(lock)

    def waiters_of_file(self, file: FileRef) -> list[WaitView]:
        """Those that wait, in their order."""
        held = self._state.holdings.files.get(file)
        return [self._view(waiter) for waiter in held.queue.in_order()] if held and held.queue else []

    def waiters_of_client(self, client: ClientId) -> list[WaitView]:
        known = self._state.holdings.clients.get(client)
        waiters = [waiter for owner in known.owners.values() for waiter in owner.all_tickets()] if known else []
        return [self._view(waiter) for waiter in waiters if waiter.is_queued]

    def waiters(self) -> list[WaitView]:
        """All that wait, in the order of their tickets."""
        return [self._view(waiter) for _, waiter in sorted(self._state.tickets.items()) if waiter.is_queued]

    def offers(self) -> list[WaitView]:
        """All that are offered and not settled."""
        return [self._view(waiter) for _, waiter in sorted(self._state.tickets.items()) if waiter.offer is not None]

    def tickets(self) -> list[Ticket]:
        """Of everybody who waits or has an offer, the oldest first."""
        return sorted(self._state.tickets)

    def ticket(self, ticket: Ticket) -> WaitView | None:
        waiter = self._state.tickets.get(ticket)
        return self._view(waiter) if waiter is not None else None

    def edges(self, limit: int | None = None) -> list[WaitEdge]:
        """The wait-for graph; soft edges that are dropped are not in it.  With a limit, that of the oldest waiters."""
        found: list[WaitEdge] = []
        for ticket, waiter in sorted(self._state.tickets.items()):
            if limit is not None and len(found) >= limit:
                break
            if not waiter.is_queued:
                continue
            view = self._view(waiter)
            assert view.ticket == ticket, "a waiter has its ticket"
            owner = view.request.owner
            found += [WaitEdge(view.ticket, owner, lock.owner, lock) for lock in view.blockers]
            ahead = [self._state.tickets[ticket].owner.owner for ticket in view.behind]
            found += [WaitEdge(view.ticket, owner, other, None) for other in ahead]
        return found

    def held_count(self, client: ClientId | None = None) -> int:
        """How many locks there are, in all or of one client."""
        if client is None:
            return self._state.holdings.total
        known = self._state.holdings.clients.get(client)
        return known.held if known is not None else 0

    def is_busy(self, client: ClientId) -> bool:
        """Does it hold or await anything?"""
        return client in self._state.holdings.clients

    def sizes(self) -> Sizes:
        state = self._state
        return Sizes(
            locks=state.holdings.total,
            files=len(state.holdings.files),
            clients=len(state.holdings.clients),
            owners=sum(len(client.owners) for client in state.holdings.clients.values()),
            tickets=len(state.tickets),
            remembered=len(state.remembered),
        )

    def shares(self) -> list[ShareView]:
        """Counts of every share that has had a lock; cheap enough for every scrape."""
        return [
            ShareView(
                share=share,
                shared=counts.shared,
                exclusive=counts.exclusive,
                reservations=counts.reservations,
                waiting=counts.waiting,
            )
            for share, counts in sorted(self._state.holdings.shares.items())
        ]

    def grace_ends_at(self, share: ShareName) -> float | None:
        """None if the share is not in grace.  Cheap, unlike the roster."""
        return self._state.grace.ends_at(share)

    def grace(self) -> list[GraceView]:
        """The shares in grace, and whom each of them waits for."""
        grace = self._state.grace
        return [
            GraceView(share, ends_at, tuple(grace.roster(share)))
            for share in grace.shares()
            if (ends_at := grace.ends_at(share)) is not None
        ]

    def _view(self, waiter: Waiter) -> WaitView:
        blockers: tuple[Lock, ...] = ()
        behind: list[Ticket] = []
        overtakes: list[Ticket] = []
        if waiter.is_queued:
            found = waiter.file.blocking(waiter.start, waiter.end, waiter.mode, waiter.owner.owner)
            blockers = tuple(sorted(found, key=lambda lock: (lock.start, lock.id)))
            ring = self._state.graph.ring(waiter.owner)
            for other in sorted(older(waiter), key=lambda other: other.id):
                (overtakes if other.owner in ring else behind).append(other.id)
        return WaitView(
            ticket=waiter.id,
            request=waiter.request,
            queued_at=waiter.queued_at,
            offer=waiter.offer,
            is_passed_over=waiter.owner.client.is_silent,
            blockers=blockers,
            behind=tuple(behind),
            overtakes=tuple(overtakes),
        )


def _place(lock: Lock) -> tuple[int, int]:
    return lock.start, lock.id
