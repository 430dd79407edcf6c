"""What is held, by whom, on which file: the indexes of the lock table, and the question "who is in the way".

Only bookkeeping: `add` and `remove` do what they are told.  Which locks there should be is decided in `table`.
Everything is made when it is first needed and dropped with its last lock or waiter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dittofs.locks.spans import Span
from dittofs.locks.spantree import Bag, SpanTree, added, everything, is_overlapped, overlapping, removed
from dittofs.locks.values import Lock, Mode, Owner, Reservation
from dittofs.model.ids import ClientId, FileRef, ShareName

if TYPE_CHECKING:
    from dittofs.locks.waiting import Queue, Waiter

EXCLUSIVE = Mode.EXCLUSIVE
SHARED = Mode.SHARED
RESERVATION = Mode.RESERVATION


class ClientState:
    """A client with at least one owner in the table."""

    __slots__ = ("held", "id", "is_silent", "owners")

    def __init__(self, client: ClientId) -> None:
        self.id = client
        self.owners: dict[str, OwnerState] = {}
        self.held = 0
        self.is_silent = False


class OwnerState:
    """An owner who holds or awaits something.

    Locks refer to his one `Owner` value, so that "is it mine" is a comparison of identities.  Most owners have locks on
    one file: that one needs no dictionary.
    """

    __slots__ = ("_bag", "_bags", "_file", "client", "owner", "reserved", "tickets")

    def __init__(self, owner: Owner, client: ClientState) -> None:
        self.owner = owner
        self.client = client
        self.reserved: dict[FileRef, Lock] | None = None
        self.tickets: dict[FileRef, list[Waiter]] | None = None
        """His requests that wait, and those that are offered, by file."""
        self._file: FileRef | None = None
        self._bag: Bag[Lock] = None
        self._bags: dict[FileRef, Bag[Lock]] | None = None

    def add_ticket(self, waiter: Waiter) -> None:
        if self.tickets is None:
            self.tickets = {}
        self.tickets.setdefault(waiter.file.ref, []).append(waiter)

    def remove_ticket(self, waiter: Waiter) -> None:
        assert self.tickets is not None, "a registered waiter is known to its owner"
        on_file = self.tickets[waiter.file.ref]
        on_file.remove(waiter)
        if not on_file:
            del self.tickets[waiter.file.ref]
            if not self.tickets:
                self.tickets = None

    def tickets_on(self, file: FileRef) -> Sequence[Waiter]:
        """His requests for this file, the oldest first."""
        return () if self.tickets is None else self.tickets.get(file, ())

    def all_tickets(self) -> list[Waiter]:
        return [] if self.tickets is None else [waiter for on_file in self.tickets.values() for waiter in on_file]

    def is_waiting(self) -> bool:
        """Has he requests in a queue?  Those that are offered are in none."""
        return self.tickets is not None and any(
            waiter.is_queued for on_file in self.tickets.values() for waiter in on_file
        )

    def ranges(self, file: FileRef) -> Bag[Lock]:
        """His own ranges: disjoint, in order; offers are not among them."""
        if self._bags is not None:
            return self._bags.get(file)
        return self._bag if self._file == file else None

    def is_beside(self, file: FileRef, start: int, end: int) -> bool:
        """Has he a range that overlaps or adjoins these bytes?"""
        bag = self._bag if self._file == file else self.ranges(file)
        return bag is not None and is_overlapped(bag, start - 1, end + 1)

    def only_range(self, file: FileRef, start: int, end: int) -> Lock | None:
        """His one range with any of these bytes; None if he has none or several."""
        bag = self._bag
        if bag is None or isinstance(bag, SpanTree) or self._file != file:
            found = list(overlapping(self.ranges(file), start, end))
            return found[0] if len(found) == 1 else None
        return bag if bag.start < end and start < bag.end else None

    def keep_ranges(self, file: FileRef, bag: Bag[Lock]) -> None:
        if self._bags is not None:
            if bag is None:
                self._bags.pop(file, None)
            else:
                self._bags[file] = bag
        elif self._file is None or self._file == file:
            self._file, self._bag = (None, None) if bag is None else (file, bag)
        elif bag is not None:
            self._bags = {self._file: self._bag, file: bag}
            self._file = self._bag = None

    def add_range(self, file: FileRef, lock: Lock) -> None:
        if self._file is None and self._bags is None:
            self._file, self._bag = file, lock
        else:
            self.keep_ranges(file, added(self.ranges(file), lock))

    def remove_range(self, file: FileRef, lock: Lock) -> None:
        if self._bag is lock:
            self._file = self._bag = None
        else:
            self.keep_ranges(file, removed(self.ranges(file), lock))

    def files(self) -> list[FileRef]:
        """Where he holds ranges."""
        if self._bags is not None:
            return list(self._bags)
        return [] if self._file is None else [self._file]

    def file_count(self) -> int:
        return (self._file is not None) if self._bags is None else len(self._bags)

    @property
    def is_idle(self) -> bool:
        return self._bag is None and not self._bags and not self.reserved and not self.tickets


class ShareCounts:
    """How many of each there are; the metrics ask at every scrape."""

    __slots__ = ("exclusive", "reservations", "shared", "waiting")

    def __init__(self) -> None:
        self.shared = 0
        self.exclusive = 0
        self.reservations = 0
        self.waiting = 0


class FileState:
    """A file with locks or waiters.  Exclusive ranges are apart: most questions are about those only."""

    __slots__ = ("count", "counts", "exclusive", "queue", "ref", "reservations", "shared")

    def __init__(self, ref: FileRef, counts: ShareCounts) -> None:
        self.ref = ref
        self.counts = counts
        self.count = 0
        self.shared: Bag[Lock] = None
        self.exclusive: Bag[Lock] = None
        self.queue: Queue | None = None
        self.reservations: dict[Reservation, dict[OwnerState, Lock]] | None = None

    def is_taken(self, start: int, end: int, mode: Mode) -> bool:
        """Does anything conflict with such a range, whoever has it?"""
        bag = self.exclusive
        if bag is not None:
            if type(bag) is SpanTree:
                if bag.is_overlapped(start, end):
                    return True
            elif is_overlapped(bag, start, end):
                return True
        return mode is EXCLUSIVE and self.shared is not None and is_overlapped(self.shared, start, end)

    def blocking(self, start: int, end: int, mode: Mode, owner: Owner | None) -> Iterator[Lock]:
        """Every lock of somebody else that conflicts with such a range [LOCK-2], offers included."""
        for lock in overlapping(self.exclusive, start, end):
            if lock.owner is not owner:
                yield lock
        if mode is EXCLUSIVE:
            for lock in overlapping(self.shared, start, end):
                if lock.owner is not owner:
                    yield lock

    def conflict(self, start: int, end: int, mode: Mode, owner: Owner | None) -> Lock | None:
        """The one of them that starts first."""
        first = None
        if self.exclusive is not None:
            for lock in overlapping(self.exclusive, start, end):
                if lock.owner is not owner:
                    first = lock
                    break
        if mode is EXCLUSIVE and self.shared is not None:
            for lock in overlapping(self.shared, start, end):
                if lock.owner is not owner:
                    return lock if first is None or lock.start < first.start else first
        return first

    def reservation_conflict(self, wanted: Reservation, owner: OwnerState | None) -> Lock | None:
        """Somebody else's reservation that denies what is wanted, or uses what would be denied."""
        for kind, holders in (self.reservations or {}).items():
            if kind.deny & wanted.access or kind.access & wanted.deny:
                for holder, lock in holders.items():
                    if holder is not owner:
                        return lock
        return None

    def locks(self) -> Iterator[Lock]:
        yield from everything(self.exclusive)
        yield from everything(self.shared)
        for holders in (self.reservations or {}).values():
            yield from holders.values()


class Holdings:
    """All files, clients and owners of the table, and the true counts."""

    __slots__ = ("clients", "contended", "files", "shares", "total")

    def __init__(self) -> None:
        self.contended: dict[FileRef, Queue] = {}
        """The files somebody waits on."""
        self.files: dict[FileRef, FileState] = {}
        self.clients: dict[ClientId, ClientState] = {}
        self.shares: dict[ShareName, ShareCounts] = {}
        self.total = 0

    def file(self, ref: FileRef) -> FileState:
        """The state of this file, made if need be."""
        state = self.files.get(ref)
        if state is None:
            counts = self.shares.get(ref.share)
            if counts is None:
                counts = self.shares[ref.share] = ShareCounts()
            state = self.files[ref] = FileState(ref, counts)
        return state

    def owner(self, owner: Owner) -> OwnerState:
        """The state of this owner, made if need be."""
        client = self.clients.get(owner.client)
        if client is None:
            client = self.clients[owner.client] = ClientState(owner.client)
        state = client.owners.get(owner.id)
        if state is None:
            state = client.owners[owner.id] = OwnerState(owner, client)
        return state

    def known_owner(self, owner: Owner) -> OwnerState | None:
        client = self.clients.get(owner.client)
        return None if client is None else client.owners.get(owner.id)

    def holder(self, lock: Lock) -> OwnerState:
        return self.clients[lock.owner.client].owners[lock.owner.id]

    def drop_if_idle(self, file: FileState, owner: OwnerState) -> None:
        if file.count == 0 and file.queue is None:
            self.files.pop(file.ref, None)
        if owner.is_idle:
            client, number = owner.client, owner.owner.id
            if client.owners.get(number) is owner:
                del client.owners[number]
                if not client.owners and self.clients.get(client.id) is client:
                    del self.clients[client.id]

    def add(self, file: FileState, owner: OwnerState, lock: Lock) -> None:
        assert lock.owner is owner.owner, "a lock refers to its owner's one value"
        mode = lock.mode
        if mode is EXCLUSIVE:
            bag = file.exclusive
            if type(bag) is SpanTree:
                bag.add(lock)
            else:
                file.exclusive = added(bag, lock)
            file.counts.exclusive += 1
        elif mode is SHARED:
            file.shared = added(file.shared, lock)
            file.counts.shared += 1
        else:
            self._add_reservation(file, owner, lock)
            file.counts.reservations += 1
        if mode is not RESERVATION and not lock.is_offered:
            owner.add_range(file.ref, lock)
        file.count += 1
        owner.client.held += 1
        self.total += 1

    def remove(self, file: FileState, owner: OwnerState, lock: Lock) -> None:
        mode = lock.mode
        if mode is EXCLUSIVE:
            bag = file.exclusive
            if type(bag) is SpanTree and bag.count > 2:
                bag.remove(lock)
            else:
                file.exclusive = removed(bag, lock)
            file.counts.exclusive -= 1
        elif mode is SHARED:
            file.shared = removed(file.shared, lock)
            file.counts.shared -= 1
        else:
            self._remove_reservation(file, owner, lock)
            file.counts.reservations -= 1
        if mode is not RESERVATION and not lock.is_offered:
            owner.remove_range(file.ref, lock)
        file.count -= 1
        owner.client.held -= 1
        self.total -= 1

    def _add_reservation(self, file: FileState, owner: OwnerState, lock: Lock) -> None:
        assert lock.reservation is not None, "a reservation says what it reserves"
        if file.reservations is None:
            file.reservations = {}
        file.reservations.setdefault(lock.reservation, {})[owner] = lock
        if owner.reserved is None:
            owner.reserved = {}
        owner.reserved[file.ref] = lock

    def _remove_reservation(self, file: FileState, owner: OwnerState, lock: Lock) -> None:
        assert lock.reservation is not None, "a reservation says what it reserves"
        assert file.reservations is not None, "the file has it"
        assert owner.reserved is not None, "its owner has it"
        holders = file.reservations[lock.reservation]
        del holders[owner], owner.reserved[file.ref]
        if not holders:
            del file.reservations[lock.reservation]

    def touching(self, owner: OwnerState, file: FileRef, span: Span) -> list[Lock]:
        """The owner's own ranges that overlap or adjoin the span."""
        return list(overlapping(owner.ranges(file), span.start - 1, span.end + 1))

    def within(self, owner: OwnerState, file: FileRef, span: Span) -> list[Lock]:
        """The owner's own ranges that overlap the span."""
        return list(overlapping(owner.ranges(file), span.start, span.end))

    def all_locks(self) -> Iterator[Lock]:
        for file in self.files.values():
            yield from file.locks()
