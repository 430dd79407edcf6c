"""What stands where a hold stands, in a call whose very result is still to come."""

from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from dittofs.model.errors import FileError
from dittofs.model.later import Later


class LateResult:
    """The result is found out by somebody else."""

    __slots__ = ("later",)

    def __init__(self, later: Later):
        self.later = later

    def when_settled(self, settled: Callable[[FileError | None], None]) -> NoReturn:
        raise AssertionError("there is no answer yet that could be held")


class BegunCoroutine:
    """The plain handler has left it to a coroutine."""

    __slots__ = ("coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, Any]):
        self.coroutine = coroutine

    def when_settled(self, settled: Callable[[FileError | None], None]) -> NoReturn:
        raise AssertionError("there is no answer yet that could be held")
