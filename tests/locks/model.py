"""The lock table in plain definitions: one entry per byte, no index, nothing clever.

The whole 64 bits are cut into a few cells; a cell stands for all its bytes.  The model knows what should be held and
who should wait; it does not know in which order the table goes about it.
"""

from dataclasses import dataclass, field, replace

from dittofs.locks.spans import END, Span
from dittofs.locks.values import Mode

CUTS = (0, 1, 2, 3, 2**63 - 1, 2**63, END - 2, END - 1, END)
"""Where cells begin: the ends of the range and the middle are where arithmetic goes wrong."""

EXCLUSIVE, SHARED = Mode.EXCLUSIVE, Mode.SHARED


def span_of(low: int, high: int) -> Span:
    return Span(CUTS[low], CUTS[high])


@dataclass(frozen=True)
class Cell:
    mode: Mode
    epoch: int
    state: int
    is_reclaim: bool


@dataclass(frozen=True)
class Claim:
    """A request that waits, or that is offered."""

    file: int
    owner: int
    low: int
    high: int
    mode: Mode
    state: int
    queued_at: float

    def overlaps(self, low: int, high: int) -> bool:
        return self.low < high and low < self.high

    def conflicts(self, other: "Claim") -> bool:
        return (
            self.file == other.file
            and self.owner != other.owner
            and self.overlaps(other.low, other.high)
            and EXCLUSIVE in (self.mode, other.mode)
        )


@dataclass(frozen=True)
class Reserved:
    access: int
    deny: int
    epoch: int
    state: int
    is_reclaim: bool


@dataclass
class Model:
    files: int
    owners: int
    cells: int
    client_of: tuple[int, ...]
    share_of: tuple[int, ...]
    epoch: int = 1
    held: dict[tuple[int, int], list[Cell | None]] = field(default_factory=dict)
    reserved: dict[tuple[int, int], Reserved] = field(default_factory=dict)
    waiting: dict[int, Claim] = field(default_factory=dict)
    offered: dict[int, Claim] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)

    def own(self, file: int, owner: int) -> list[Cell | None]:
        return self.held.get((file, owner)) or [None] * self.cells

    def keep(self, file: int, owner: int, cells: list[Cell | None]) -> None:
        if any(cells):
            self.held[file, owner] = cells
        else:
            self.held.pop((file, owner), None)

    def runs(self, file: int, owner: int) -> list[tuple[int, int, Cell]]:
        """The owner's cells as the fewest ranges: one type, one epoch."""
        found: list[tuple[int, int, Cell]] = []
        for index, cell in enumerate(self.own(file, owner)):
            if cell is None:
                continue
            if found and found[-1][1] == index and (found[-1][2].mode, found[-1][2].epoch) == (cell.mode, cell.epoch):
                found[-1] = (found[-1][0], index + 1, cell)
            else:
                found.append((index, index + 1, cell))
        return found

    # What is in the way

    def holders(self, claim: Claim) -> set[int]:
        """Owners who hold, or are offered, what conflicts with it."""
        found = {other.owner for other in self.offered.values() if claim.conflicts(other)}
        for (file, owner), cells in self.held.items():
            if file == claim.file and owner != claim.owner:
                for cell in cells[claim.low : claim.high]:
                    if cell is not None and EXCLUSIVE in (cell.mode, claim.mode):
                        found.add(owner)
        return found

    def ahead(self, ticket: int, claim: Claim) -> set[int]:
        """Owners of older waiters it conflicts with, those of silent clients not counted."""
        return {
            other.owner
            for number, other in self.waiting.items()
            if number < ticket and claim.conflicts(other) and self.client_of[other.owner] not in self.silent
        }

    def edges(self, *, soft: bool) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {}
        for ticket, claim in self.waiting.items():
            targets = found.setdefault(claim.owner, set())
            targets |= self.holders(claim)
            if soft:
                targets |= self.ahead(ticket, claim)
        return found

    @staticmethod
    def reachable(edges: dict[int, set[int]], owner: int) -> set[int]:
        """Along one edge or more."""
        found: set[int] = set()
        unseen = [owner]
        while unseen:
            for target in edges.get(unseen.pop(), ()):
                if target not in found:
                    found.add(target)
                    unseen.append(target)
        return found

    def hard_cycle(self) -> bool:
        edges = self.edges(soft=False)
        return any(owner in self.reachable(edges, owner) for owner in edges)

    def held_back(self, ticket: int, claim: Claim) -> bool:
        """Is there a soft edge that lies on no cycle?  The claim need not be among the waiting ones."""
        ahead = self.ahead(ticket, claim)
        if not ahead:
            return False
        with_it = replace(self, waiting={**self.waiting, ticket: claim})
        edges = with_it.edges(soft=True)
        return any(claim.owner not in self.reachable(edges, other) for other in ahead)

    def would_deadlock(self, ticket: int, claim: Claim) -> bool:
        return replace(self, waiting={**self.waiting, ticket: claim}).hard_cycle()

    def grantable(self, ticket: int) -> bool:
        claim = self.waiting[ticket]
        if self.client_of[claim.owner] in self.silent:
            return False
        return not self.holders(claim) and not self.held_back(ticket, claim)

    def find(self, claim: Claim) -> tuple[int | None, bool]:
        """The ticket of this very request, and whether it is offered."""
        wanted = (claim.file, claim.owner, claim.low, claim.high, claim.mode)
        for ticket, other in sorted({**self.waiting, **self.offered}.items()):
            if (other.file, other.owner, other.low, other.high, other.mode) == wanted:
                return ticket, ticket in self.offered
        return None, False

    def reservation_conflict(self, file: int, owner: int, access: int, deny: int) -> bool:
        return any(
            number == file and holder != owner and (other.access & deny or other.deny & access)
            for (number, holder), other in self.reserved.items()
        )

    # Changes

    def painted(self, claim: Claim, *, is_reclaim: bool = False) -> list[Cell | None]:
        """The owner's cells after a grant: one new lock, with everything of its type that touches it."""
        cells = list(self.own(claim.file, claim.owner))
        new = Cell(claim.mode, self.epoch, claim.state, is_reclaim)
        low, high = claim.low, claim.high

        def joins(index: int) -> bool:
            cell = cells[index]
            return cell is not None and (cell.mode, cell.epoch) == (new.mode, new.epoch)

        while low > 0 and joins(low - 1):
            low -= 1
        while high < self.cells and joins(high):
            high += 1
        cells[low:high] = [new] * (high - low)
        return cells

    def has_it_all(self, claim: Claim, *, is_reclaim: bool) -> bool:
        return any(
            low <= claim.low
            and claim.high <= high
            and (cell.mode, cell.epoch) == (claim.mode, self.epoch)
            and claim.state in (0, cell.state)
            and (cell.is_reclaim or not is_reclaim)
            for low, high, cell in self.runs(claim.file, claim.owner)
        )

    # Counts

    def locks_on(self, file: int) -> int:
        ranges = sum(len(self.runs(*key)) for key in self.held if key[0] == file)
        offers = sum(claim.file == file for claim in self.offered.values())
        return ranges + offers + sum(key[0] == file for key in self.reserved)

    def locks_of(self, client: int) -> int:
        ranges = sum(len(self.runs(*key)) for key in self.held if self.client_of[key[1]] == client)
        offers = sum(self.client_of[claim.owner] == client for claim in self.offered.values())
        return ranges + offers + sum(self.client_of[key[1]] == client for key in self.reserved)

    def locks(self) -> int:
        return sum(self.locks_on(file) for file in range(self.files))

    def pending(self, share: int) -> bool:
        """Is anything recorded by an earlier run not settled yet?"""
        ranges = (
            cell is not None and cell.epoch != self.epoch
            for (file, _), cells in self.held.items()
            if self.share_of[file] == share
            for cell in cells
        )
        reserved = (
            reservation.epoch != self.epoch
            for (file, _), reservation in self.reserved.items()
            if self.share_of[file] == share
        )
        return any(ranges) or any(reserved)

    def settle(self, ticket: int) -> None:
        claim = self.offered.pop(ticket)
        self.keep(claim.file, claim.owner, self.painted(claim))
