"""Cost per operation, counted in lines of the lock table's code that are run, so that a loaded machine does not matter.

The cases are those of bench/locks.py, which measures them in time: the logarithm is allowed, a scan is not [LOCK-9].
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import dittofs.locks
from bench.locks import CASES, LAYOUTS, MAX_BYTES, Case, Layout, bytes_per_lock

SOURCE = str(Path(dittofs.locks.__file__).parent)
SMALL, BIG = 100, 1_500
MAX_GROWTH = 2.0
"""A scan of fifteen times as many locks would be far above it, two more levels of a tree are far below."""


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of the table it ran, loops counted each time round."""
    total = 0

    def on_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal total
        total += event == "line"
        return on_line

    def on_call(frame: FrameType, event: str, argument: Any) -> Any:
        return on_line if frame.f_code.co_filename.startswith(SOURCE) else None

    previous = sys.gettrace()
    sys.settrace(on_call)
    try:
        work()
    finally:
        sys.settrace(previous)
    return total


def cost(case: Case, size: int) -> float:
    operation = case.prepare(size)
    if case.is_bulk:
        return lines_run(lambda: operation(0)) / size
    operation(0)
    steps = 20
    return lines_run(lambda: [operation(step) for step in range(steps)]) / steps


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cost_does_not_grow_with_the_table(case: Case) -> None:
    """[LOCK-9]"""
    small, big = cost(case, SMALL), cost(case, min(BIG, case.max_size))
    print(f"{case.name}: {small:.0f} lines at {SMALL}, {big:.0f} at {BIG}")
    assert big <= MAX_GROWTH * small


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout.is_bounded], ids=lambda layout: layout.name)
def test_a_lock_takes_few_bytes(layout: Layout) -> None:
    """At most 400 bytes for a lock, with all that belongs to it."""
    size = bytes_per_lock(layout, 10_000)
    print(f"{layout.name}: {size:.0f} bytes per lock")
    assert size <= MAX_BYTES
