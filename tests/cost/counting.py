"""What a call costs, without a clock: how many bytecode instructions and calls into C it takes.

Both are the same on every machine, busy or not, for one minor version of Python; so a path that got longer is seen
where a timing would drown in noise.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple


class Cost(NamedTuple):
    """Per call, rounded."""

    instructions: int
    c_calls: int


def cost_of(work: Callable[[], object], calls: int) -> Cost:
    """Of one of the `calls` that `work` makes."""
    return Cost(round(_instructions(work) / calls), round(_c_calls(work) / calls))


def _instructions(work: Callable[[], object]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if event == "call":
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
        elif event == "opcode":
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def _c_calls(work: Callable[[], object]) -> int:
    count = 0

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        if event == "c_call":
            count += 1

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
