"""An answer that is not there yet, and a coroutine that is under way without a task."""

from collections.abc import Callable, Coroutine, Generator
from typing import Any

Done = Callable[[Any, Exception | None], None]
"""Takes a result, or the error that stands in its place."""


class Later(Exception):
    """Raised in the place of a result that somebody else has to be asked for first.  Nobody is asked unless
    `when_done` is called."""

    def __init__(self, begin: Callable[[Done], None]):
        super().__init__("the result comes later")
        self._begin = begin

    def when_done(self, done: Done) -> None:
        """Ask, and call back once; never before this returns."""
        self._begin(done)


class Resumed:
    """The rest of a coroutine whose first step has been taken: hands on the future it waits for."""

    __slots__ = ("_coroutine", "_waits_for")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], waits_for: Any):
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine, waits_for = self._coroutine, self._waits_for
        while True:
            try:
                sent, thrown = (yield waits_for), None
            except BaseException as error:  # cancellation is the coroutine's to handle
                sent, thrown = None, error
            try:
                waits_for = coroutine.send(sent) if thrown is None else coroutine.throw(thrown)
            except StopIteration as stop:
                return stop.value
