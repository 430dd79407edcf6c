"""An answer that is not there yet."""

from collections.abc import Callable
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
