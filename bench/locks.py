"""Microseconds per operation of the lock table, by how many locks there are: `python bench/locks.py [--quick]`.

[LOCK-9]: cost grows no faster than the logarithm of the locks on a file; from 100 to 100,000 locks at most three times.
Each figure is the best of several rounds, so that other work on the machine does not count; the last column is the
greatest size against 100.  Then bytes per lock, of which there may be 400.
"""

import argparse
import gc
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

from dittofs.locks.limits import LockLimits
from dittofs.locks.outcomes import Blocked, Granted, Offer, Reason
from dittofs.locks.spans import END, Span
from dittofs.locks.table import LockTable
from dittofs.locks.values import Acquire, Mode, Owner
from dittofs.model.ids import ClientId, FileId, FileRef, ShareName

SIZES = (10, 100, 1_000, 10_000, 100_000)
ROUNDS = 25
MAX_GROWTH = 3.0
MAX_BYTES = 400
FILE = FileRef(ShareName("/export"), FileId(1))
LIMITS = LockLimits(
    max_per_file=10**7, max_per_client=10**7, max_total=10**7, max_waiters_per_file=10**7, grace_seconds=90
)
SHARED, EXCLUSIVE = Mode.SHARED, Mode.EXCLUSIVE
WIDTH = 10

Operation = Callable[[int], object]


def owner(number: int, client: int | None = None) -> Owner:
    """One owner per client, unless told otherwise."""
    client = number if client is None else client
    return Owner(f"nlm:host{client}:{number}:0a0b", ClientId(f"host{client}/10.0.0.1"), svid=number, oh=b"\x0a\x0b")


def file(number: int) -> FileRef:
    return FileRef(ShareName("/export"), FileId(number))


def place(number: int) -> Span:
    """The ranges lie apart, so that nothing merges."""
    return Span(number * 2 * WIDTH, number * 2 * WIDTH + WIDTH)


def lock(table: LockTable, ref: FileRef, who: Owner, span: Span, mode: Mode, *, wait: bool = False) -> object:
    return table.acquire(Acquire(ref, who, span, mode, wait=wait), 1.0)[0]


@dataclass
class Case:
    """`prepare` makes a table of n locks and gives the operation, which leaves it as it was."""

    name: str
    prepare: Callable[[int], Operation]
    is_bulk: bool = False
    """The operation is done once and costs n steps: the figure is per step."""
    max_size: int = 10**6
    """Beyond it only the preparation would be measured."""


def spread(n: int, mode: Mode = EXCLUSIVE) -> LockTable:
    """n locks of n owners on one file."""
    table = LockTable(LIMITS)
    for number in range(n):
        assert isinstance(lock(table, FILE, owner(number), place(number), mode), Granted)
    return table


def gap(n: int, step: int) -> Span:
    """Somewhere between two locks; each time elsewhere."""
    start = place(step * 7919 % n).end
    return Span(start + 2, start + 5)


def take_and_give_back(n: int) -> Operation:
    table, who = spread(n), owner(-1)

    def operation(step: int) -> None:
        span = gap(n, step)
        lock(table, FILE, who, span, EXCLUSIVE)
        table.release(FILE, who, span, 1.0)

    return operation


def test_held(n: int) -> Operation:
    table, who = spread(n), owner(-1)
    return lambda step: table.test(FILE, who, place(step * 7919 % n), EXCLUSIVE)


def test_again(n: int) -> Operation:
    """The same few ranges: what the index costs by itself, without memory that no cache holds."""
    table, who = spread(n), owner(-1)
    return lambda step: table.test(FILE, who, place(step % 8 * 7919 % n), EXCLUSIVE)


def denied(n: int) -> Operation:
    table, who = spread(n), owner(-1)
    return lambda step: lock(table, FILE, who, place(step * 7919 % n), EXCLUSIVE)


def split_and_join(n: int) -> Operation:
    """One owner has every lock; the middle of one is unlocked and locked again."""
    table, who = LockTable(LIMITS), owner(0)
    for number in range(n):
        lock(table, FILE, who, place(number), EXCLUSIVE)

    def operation(step: int) -> None:
        start = place(step * 7919 % n).start
        table.release(FILE, who, Span(start + 3, start + 5), 1.0)
        lock(table, FILE, who, Span(start + 3, start + 5), EXCLUSIVE)

    return operation


def wait_and_cancel(n: int) -> Operation:
    table, who = spread(n), owner(-1)

    def operation(step: int) -> None:
        span = place(step * 7919 % n)
        assert isinstance(lock(table, FILE, who, span, EXCLUSIVE, wait=True), Blocked)
        table.cancel(FILE, who, span, EXCLUSIVE, 1.0)

    return operation


def hand_over(n: int) -> Operation:
    """Wait, be woken by the unlock, confirm, and give it back to its first owner."""
    table, who = spread(n), owner(-1)

    def operation(step: int) -> None:
        number = step * 7919 % n
        span = place(number)
        lock(table, FILE, who, span, EXCLUSIVE, wait=True)
        _, effects = table.release(FILE, owner(number), span, 1.0)
        offer = next(effect for effect in effects if isinstance(effect, Offer))
        table.settle(offer.ticket, 1.0)
        table.release(FILE, who, span, 1.0)
        lock(table, FILE, owner(number), span, EXCLUSIVE)

    return operation


def under_a_whole_file_lock(n: int) -> Operation:
    """One shared lock over the whole file and n short ones: a reader comes and goes, a writer asks."""
    table, who = spread(n, SHARED), owner(-1)
    lock(table, FILE, owner(-2), Span(0, END), SHARED)

    def operation(step: int) -> None:
        span = gap(n, step)
        lock(table, FILE, who, span, SHARED)
        table.test(FILE, who, span, EXCLUSIVE)
        table.release(FILE, who, span, 1.0)

    return operation


def whole_file_lock(n: int) -> Operation:
    """n short shared locks, and the whole-file lock itself comes and goes."""
    table, who = spread(n, SHARED), owner(-1)

    def operation(step: int) -> None:
        lock(table, FILE, who, Span(0, END), SHARED)
        table.test(FILE, who, Span(0, END), EXCLUSIVE)
        table.release(FILE, who, Span(0, END), 1.0)

    return operation


def sharers_of_one_range(n: int) -> Operation:
    table, who = LockTable(LIMITS), owner(-1)
    for number in range(n):
        lock(table, FILE, owner(number), place(0), SHARED)

    def operation(step: int) -> None:
        lock(table, FILE, who, place(0), SHARED)
        table.test(FILE, who, place(0), EXCLUSIVE)
        table.release(FILE, who, place(0), 1.0)

    return operation


def waiters_over_files(n: int) -> Operation:
    """n files with a holder and a waiter each; one more waits and cancels, one waits and is handed the lock."""
    table, who = LockTable(LIMITS), owner(-1)
    for number in range(n):
        lock(table, file(number), owner(2 * number), place(0), EXCLUSIVE)
        lock(table, file(number), owner(2 * number + 1), place(0), EXCLUSIVE, wait=True)

    def operation(step: int) -> None:
        ref = file(step * 7919 % n)
        lock(table, ref, who, place(0), EXCLUSIVE, wait=True)
        table.cancel(ref, who, place(0), EXCLUSIVE, 1.0)

    return operation


def waits_of_one_owner(n: int) -> Operation:
    """One owner waits on n files: he still locks, polls and unlocks at the old price."""
    table, who = LockTable(LIMITS), owner(-1)
    for number in range(n):
        lock(table, file(number), owner(number), place(0), EXCLUSIVE)
        lock(table, file(number), who, place(0), EXCLUSIVE, wait=True)

    def operation(step: int) -> None:
        ref = file(step * 7919 % n)
        lock(table, ref, who, place(0), EXCLUSIVE, wait=True)
        lock(table, ref, who, place(1), SHARED)
        table.release(ref, who, place(1), 1.0)

    return operation


def waits_for_one_holder(n: int) -> Operation:
    """n files of one owner, with a waiter each: what he frees wakes one."""
    table, who, other = LockTable(LIMITS), owner(-1), owner(-2)
    for number in range(n):
        lock(table, file(number), who, place(0), EXCLUSIVE)
        lock(table, file(number), owner(number), place(0), EXCLUSIVE, wait=True)

    def operation(step: int) -> None:
        ref = file(step * 7919 % n)
        lock(table, ref, other, place(1), SHARED)
        table.release(ref, other, place(1), 1.0)

    return operation


def client_gone(n: int) -> Operation:
    """n locks of one client and one owner, and n of strangers between them."""
    table = spread(n)
    gone = owner(-1, client=-1)
    for number in range(n):
        lock(table, FILE, gone, gap(n, number), SHARED)

    def operation(step: int) -> None:
        table.client_gone(gone.client, 1.0, reason=Reason.CRASH)

    return operation


def client_of_many_gone(n: int) -> Operation:
    """The same with n owners on n files, somebody waiting for each."""
    table = LockTable(LIMITS)
    for number in range(n):
        lock(table, file(number), owner(number, client=-1), place(0), EXCLUSIVE)
        lock(table, file(number), owner(number), place(0), SHARED, wait=True)

    def operation(step: int) -> None:
        table.client_gone(owner(0, client=-1).client, 1.0, reason=Reason.CRASH)

    return operation


def client_with_waits_gone(n: int) -> Operation:
    """n waits of one owner end."""
    table, who = LockTable(LIMITS), owner(-1)
    for number in range(n):
        lock(table, file(number), owner(number), place(0), EXCLUSIVE)
        lock(table, file(number), who, place(0), SHARED, wait=True)

    def operation(step: int) -> None:
        table.client_gone(who.client, 1.0, reason=Reason.CRASH)

    return operation


CASES = (
    Case("lock and unlock", take_and_give_back),
    Case("test what is held", test_held),
    Case("the same, few ranges", test_again),
    Case("lock, denied", denied),
    Case("split and join", split_and_join),
    Case("wait and cancel", wait_and_cancel),
    Case("wait, offer, settle, give back", hand_over),
    Case("shared under a whole-file lock", under_a_whole_file_lock),
    Case("the whole-file lock itself", whole_file_lock),
    Case("n sharers of one range", sharers_of_one_range),
    Case("n waiters over n files", waiters_over_files),
    Case("n waits of one owner", waits_of_one_owner, max_size=1_000),
    Case("n waiters for one holder", waits_for_one_holder),
    Case("all n locks of a client gone", client_gone, is_bulk=True),
    Case("the same, n owners and files", client_of_many_gone, is_bulk=True),
    Case("all n waits of a client gone", client_with_waits_gone, is_bulk=True, max_size=1_000),
)


def microseconds(case: Case, n: int) -> float:
    """The best of some rounds."""
    if case.is_bulk:
        rounds = 3 if n > 1_000 else max(3, 3_000 // n)
        return min(timed(case.prepare(n), 1) for _ in range(rounds)) / n
    operation = case.prepare(n)
    calls = 300
    timed(operation, 50)
    return min(timed(operation, calls) for _ in range(ROUNDS)) / calls


def timed(operation: Operation, calls: int) -> float:
    gc.collect()
    gc.disable()
    started = time.process_time_ns()
    for step in range(calls):
        operation(step)
    spent = time.process_time_ns() - started
    gc.enable()
    return spent / 1_000


@dataclass
class Layout:
    """Who has the locks, and where.  The bound is for locks: an owner or a file that has only one lock comes on top."""

    name: str
    fill: Callable[[LockTable, int], object]
    is_bounded: bool = False


def locks_of(number: int, *, per_owner: int, files: int) -> tuple[FileRef, Owner, Span, Mode]:
    holder = number // per_owner
    return file(number % files), owner(holder, client=holder % 100), place(number), EXCLUSIVE


LAYOUTS = (
    Layout("one owner, one file", lambda t, n: lock(t, *locks_of(n, per_owner=10**9, files=1)), is_bounded=True),
    Layout("ten per owner, 100 files", lambda t, n: lock(t, *locks_of(n, per_owner=10, files=100)), is_bounded=True),
    Layout("one per owner, one file", lambda t, n: lock(t, *locks_of(n, per_owner=1, files=1))),
    Layout("one per owner and file", lambda t, n: lock(t, *locks_of(n, per_owner=1, files=10**9))),
)


def bytes_per_lock(layout: Layout, n: int) -> float:
    """Everything that stays allocated, the owner's strings and the numbers included."""
    gc.collect()
    tracemalloc.start()
    table = LockTable(LIMITS)
    for number in range(n):
        layout.fill(table, number)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert table.inspect.held_count() == n
    return used / n


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", default="", help="only those whose name has this in it")
    parser.add_argument("--quick", action="store_true", help="up to 10,000 locks only")
    arguments = parser.parse_args()
    sizes = SIZES[:-1] if arguments.quick else SIZES
    failed = []
    print(f"{'µs per operation':34}" + "".join(f"{n:>10,}" for n in sizes) + f"{'growth':>9}")
    for case in [case for case in CASES if arguments.case in case.name]:
        figures = [microseconds(case, n) for n in sizes if n <= case.max_size]
        growth = figures[-1] / figures[1]
        failed += [case.name] if growth > MAX_GROWTH else []
        print(
            f"{case.name:34}"
            + "".join(f"{figure:10.2f}" for figure in figures).ljust(10 * len(sizes))
            + f"{growth:8.1f}x",
            flush=True,
        )
    for layout in LAYOUTS:
        size = bytes_per_lock(layout, sizes[-1])
        failed += [layout.name] if layout.is_bounded and size > MAX_BYTES else []
        print(f"bytes per lock, {layout.name:28}{size:8.0f}")
    if failed:
        print(f"over the bound ({MAX_GROWTH:g} times, {MAX_BYTES} bytes): {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
