"""Stays awake for a moment after an answer, while clients ask again at once.

A client that waits for each answer before its next call keeps server and processor falling asleep and being woken, and
on a virtual machine that costs several times what the call does.  So the loop goes on looking for a while, but only if
what came lately came within that while: a client behind a network, or one that thinks, is not waited for.
"""

import asyncio
from collections.abc import Callable
from typing import Final

WEIGHT: Final = 0.125
"""Of the newest pause in the mean of them."""


class Attention:
    """One for all connections; `seconds` is how long to stay awake at most, 0: never."""

    __slots__ = ("_answered", "_call_soon", "_clock", "_is_awake", "_pause", "_seconds", "_stay_awake")

    def __init__(self, clock: Callable[[], float], seconds: float):
        self._clock = clock
        self._seconds = seconds
        self._answered = 0.0
        self._pause = 2 * seconds
        self._is_awake = False
        # Kept, for both are made anew each time they are asked for, and the running loop at the price of a system call.
        self._call_soon: Callable[[Callable[[], None]], object] | None = None
        self._stay_awake: Callable[[], None] = self._stay

    def arrived(self, now: float) -> None:
        """Calls have come."""
        # One long silence must not make up for many short ones, nor the other way round.
        pause = now - self._answered
        longest = 4 * self._seconds
        if pause > longest:
            pause = longest
        self._pause += (pause - self._pause) * WEIGHT

    def answered(self, now: float) -> None:
        """They are dealt with."""
        self._answered = now
        if not self._is_awake and self._pause < self._seconds:
            self._is_awake = True
            self._go_on()

    def _stay(self) -> None:
        if self._clock() - self._answered < self._seconds:
            self._go_on()
        else:
            self._is_awake = False

    def _go_on(self) -> None:
        if self._call_soon is None:
            self._call_soon = asyncio.get_running_loop().call_soon
        self._call_soon(self._stay_awake)
