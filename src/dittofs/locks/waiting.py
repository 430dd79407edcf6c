"""Who waits for whom: the queue of a file, and the wait-for graph over all of them [LOCK-5], [LOCK-7].

Nothing here is kept twice: edges follow from what is held and who waits.  An owner waits for another by a *hard* edge
if one of his queued requests conflicts with something the other holds or is offered, and by a *soft* edge if it
conflicts with an older queued request of the other.  A soft edge that lies on a cycle counts as dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from dittofs.locks.holdings import FileState, Holdings, OwnerState
from dittofs.locks.outcomes import Wait
from dittofs.locks.spans import Span
from dittofs.locks.spantree import Bag, added, everything, overlapping, removed
from dittofs.locks.values import Acquire, Lock, Mode
from dittofs.model.ids import FileRef, Ticket

EXCLUSIVE = Mode.EXCLUSIVE


class Waiter:
    """A request in a queue, or one that was taken out of it by an offer."""

    __slots__ = (
        "end",
        "file",
        "id",
        "is_foreign",
        "is_queued",
        "mode",
        "offer",
        "owner",
        "queued_at",
        "request",
        "start",
    )

    def __init__(self, ticket: Ticket, request: Acquire, file: FileState, owner: OwnerState, now: float) -> None:
        self.id = ticket
        self.request = request
        self.file = file
        self.owner = owner
        self.start, self.end = request.span
        self.mode = request.mode
        self.queued_at = now
        self.offer: Lock | None = None
        self.is_queued = False
        self.is_foreign = False
        """An offer that another node makes: it is counted here, and settled there."""

    def is_same(self, file: FileRef, span: Span, mode: Mode) -> bool:
        """Is it the request that this owner sent before?"""
        return self.start == span.start and self.end == span.end and self.mode is mode and self.file.ref == file

    def shuts_out(self, other: Waiter) -> bool:
        """Is all that the other wants offered to this one alone?"""
        return (
            self.mode is EXCLUSIVE
            and self.file is other.file
            and self.start <= other.start
            and other.end <= self.end
            and self.owner is not other.owner
        )


class Queue:
    """The waiters of one file; their tickets are their order."""

    __slots__ = ("count", "exclusive", "shared")

    def __init__(self) -> None:
        self.shared: Bag[Waiter] = None
        self.exclusive: Bag[Waiter] = None
        self.count = 0

    def add(self, waiter: Waiter) -> None:
        if waiter.mode is EXCLUSIVE:
            self.exclusive = added(self.exclusive, waiter)
        else:
            self.shared = added(self.shared, waiter)
        self.count += 1

    def remove(self, waiter: Waiter) -> None:
        if waiter.mode is EXCLUSIVE:
            self.exclusive = removed(self.exclusive, waiter)
        else:
            self.shared = removed(self.shared, waiter)
        self.count -= 1

    def overlapping(self, start: int, end: int) -> Iterator[Waiter]:
        yield from overlapping(self.exclusive, start, end)
        yield from overlapping(self.shared, start, end)

    def conflicting(self, start: int, end: int, mode: Mode, owner: OwnerState) -> Iterator[Waiter]:
        """Waiters of others that want what does not go together with such a range."""
        for waiter in overlapping(self.exclusive, start, end):
            if waiter.owner is not owner:
                yield waiter
        if mode is EXCLUSIVE:
            for waiter in overlapping(self.shared, start, end):
                if waiter.owner is not owner:
                    yield waiter

    def __iter__(self) -> Iterator[Waiter]:
        yield from everything(self.exclusive)
        yield from everything(self.shared)

    def in_order(self) -> list[Waiter]:
        return sorted(self, key=lambda waiter: waiter.id)


def queued(owner: OwnerState, extra: Waiter | None = None) -> list[Waiter]:
    """The owner's requests that wait; `extra` is one that is only thought of."""
    waiters = [waiter for waiter in owner.all_tickets() if waiter.is_queued]
    if extra is not None and extra.owner is owner:
        waiters.append(extra)
    return waiters


def older(waiter: Waiter) -> Iterator[Waiter]:
    """The waiters behind which this one queues: soft edges.  Those of silent clients are passed over [NLM-5]."""
    queue = waiter.file.queue
    if queue is None:
        return
    for other in queue.conflicting(waiter.start, waiter.end, waiter.mode, waiter.owner):
        if other.id < waiter.id and not other.owner.client.is_silent:
            yield other


def enqueue(holdings: Holdings, waiter: Waiter) -> None:
    file = waiter.file
    if file.queue is None:
        file.queue = holdings.contended[file.ref] = Queue()
    file.queue.add(waiter)
    file.counts.waiting += 1
    waiter.is_queued = True


def dequeue(holdings: Holdings, waiter: Waiter) -> None:
    file = waiter.file
    assert file.queue is not None, "a queued waiter is in its file's queue"
    file.queue.remove(waiter)
    file.counts.waiting -= 1
    waiter.is_queued = False
    if file.queue.count == 0:
        file.queue = None
        del holdings.contended[file.ref]


class WaitGraph:
    """Questions about the edges."""

    __slots__ = ("_holdings",)

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings

    def held_back_by(self, waiter: Waiter, extra: Waiter | None = None) -> Waiter | None:
        """The first older waiter behind which this one must stay, by a soft edge that is not dropped."""
        ring: set[OwnerState] | None = None
        for other in older(waiter):
            if ring is None:
                ring = self.ring(waiter.owner, extra)
            if other.owner not in ring:
                return other
        return None

    def is_grantable(self, waiter: Waiter) -> bool:
        if waiter.owner.client.is_silent:
            return False
        if waiter.file.conflict(waiter.start, waiter.end, waiter.mode, waiter.owner.owner) is not None:
            return False
        return self.held_back_by(waiter) is None

    def ring(self, owner: OwnerState, extra: Waiter | None = None) -> set[OwnerState]:
        """Everybody who is on a cycle with this owner, hard and soft edges alike; empty if he is on none."""
        if not queued(owner, extra) or not self._is_awaited(owner):
            return set()
        sources: dict[OwnerState, list[OwnerState]] = {owner: []}
        unseen = deque([owner])
        while unseen:
            source = unseen.popleft()
            for target in self._targets(source, extra):
                if target not in sources:
                    sources[target] = []
                    unseen.append(target)
                sources[target].append(source)
        found: set[OwnerState] = set()
        unseen.append(owner)
        while unseen:
            for source in sources[unseen.popleft()]:
                if source not in found:
                    found.add(source)
                    unseen.append(source)
        return found

    def deadlock(self, owner: OwnerState, extra: Waiter | None = None) -> list[tuple[Waiter, Lock]]:
        """A shortest cycle of hard edges through this owner: each waiter, and the lock of the next that blocks it."""
        reached_by: dict[OwnerState, tuple[Waiter, Lock]] = {}
        unseen = deque([owner])
        while unseen:
            source = unseen.popleft()
            for waiter in queued(source, extra):
                for lock in waiter.file.blocking(waiter.start, waiter.end, waiter.mode, source.owner):
                    target = self._holdings.holder(lock)
                    if target not in reached_by:
                        reached_by[target] = (waiter, lock)
                        if target is owner:
                            return self._path_to(owner, reached_by)
                        unseen.append(target)
        return []

    @staticmethod
    def _path_to(owner: OwnerState, reached_by: dict[OwnerState, tuple[Waiter, Lock]]) -> list[tuple[Waiter, Lock]]:
        path = [reached_by[owner]]
        while path[-1][0].owner is not owner:
            path.append(reached_by[path[-1][0].owner])
        path.reverse()
        return path

    def _targets(self, owner: OwnerState, extra: Waiter | None) -> Iterator[OwnerState]:
        """Whom this owner waits for."""
        for waiter in queued(owner, extra):
            for lock in waiter.file.blocking(waiter.start, waiter.end, waiter.mode, owner.owner):
                yield self._holdings.holder(lock)
            for other in older(waiter):
                yield other.owner

    def _is_awaited(self, owner: OwnerState) -> bool:
        """Does anybody wait for this owner?  If not, he is on no cycle, and the graph need not be walked [LOCK-9]."""
        for ticket in owner.all_tickets():
            queue = ticket.file.queue
            if queue is None or (ticket.is_queued and owner.client.is_silent):
                continue
            for waiter in queue.conflicting(ticket.start, ticket.end, ticket.mode, owner):
                if not ticket.is_queued or waiter.id > ticket.id:
                    return True
        contended = self._holdings.contended
        if len(contended) < owner.file_count():
            return any(self._is_wanted(owner, file, queue) for file, queue in contended.items())
        return any(
            self._is_wanted(owner, file, queue) for file in owner.files() if (queue := contended.get(file)) is not None
        )

    @staticmethod
    def _is_wanted(owner: OwnerState, file: FileRef, queue: Queue) -> bool:
        ranges = owner.ranges(file)
        if ranges is None:
            return False
        for waiter in queue:
            if waiter.owner is not owner:
                for lock in overlapping(ranges, waiter.start, waiter.end):
                    if lock.mode is EXCLUSIVE or waiter.mode is EXCLUSIVE:
                        return True
        return False


def explained(cycle: list[tuple[Waiter, Lock]], thought_of: Waiter | None = None) -> tuple[Wait, ...]:
    """The cycle as values.  The request that was only thought of has no ticket."""
    return tuple(
        Wait(
            owner=waiter.owner.owner,
            file=waiter.file.ref,
            span=Span(waiter.start, waiter.end),
            mode=waiter.mode,
            ticket=None if waiter is thought_of else waiter.id,
            blocker=lock,
        )
        for waiter, lock in cycle
    )
