"""An endpoint of the REST interface: declared once with its types; checked, documented and answered from that.

    @ENDPOINTS.get("/locks", query=LockFilter, answer=LockPage)
    async def locks(plane: Plane, asked: Asked) -> LockPage: ...

What comes in is converted to the declared type or refused with 400 and the reason; what goes out is a value.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

import msgspec

from dittofs.control.plane import Plane

BODY_BYTES_MAX = 64 * 1024


class Right(Enum):
    """What a token is good for; who may change may also read."""

    NONE = "none"
    READ = "read"
    CHANGE = "change"


class Refused(Exception):
    """Ends a request with a status and a sentence for its sender."""

    def __init__(self, status: int, error: str, *, headers: dict[str, str] | None = None):
        super().__init__(error)
        self.status = status
        self.error = error
        self.headers = headers or {}


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class Problem(msgspec.Struct, frozen=True):
    """Why a request was not answered."""

    error: str


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: its path parameters, the declared query and body, and who sent it."""

    path: dict[str, str]
    query: Any
    body: Any
    actor: str


Handler = Callable[[Plane, Asked], Awaitable[Any]]
H = TypeVar("H", bound=Handler)


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: str
    path: str
    handler: Handler
    answer: Any
    query: type[msgspec.Struct]
    body: type[msgspec.Struct] | None
    right: Right
    statuses: tuple[int, ...]

    @property
    def is_stream(self) -> bool:
        """Whether it answers with bytes: then the handler makes the whole response."""
        return self.answer is bytes

    @property
    def summary(self) -> str:
        return (self.handler.__doc__ or "").split("\n\n")[0].replace("\n    ", " ").strip()

    @property
    def name(self) -> str:
        return self.handler.__name__


@dataclass(slots=True)
class Endpoints:
    """All of them, in the order of their declaration."""

    found: list[Endpoint] = field(default_factory=list)

    def get(
        self, path: str, *, answer: Any, query: type[msgspec.Struct] = Nothing, right: Right = Right.READ, **more: Any
    ) -> Callable[[H], H]:
        return self._declare("GET", path, answer=answer, query=query, body=None, right=right, **more)

    def post(
        self,
        path: str,
        *,
        answer: Any,
        body: type[msgspec.Struct] | None,
        right: Right = Right.CHANGE,
        **more: Any,
    ) -> Callable[[H], H]:
        return self._declare("POST", path, answer=answer, query=Nothing, body=body, right=right, **more)

    def _declare(
        self,
        method: str,
        path: str,
        *,
        answer: Any,
        query: type[msgspec.Struct],
        body: type[msgspec.Struct] | None,
        right: Right,
        statuses: tuple[int, ...] = (),
    ) -> Callable[[H], H]:
        def declare(handler: H) -> H:
            self.found.append(Endpoint(method, path, handler, answer, query, body, right, statuses))
            return handler

        return declare


ENDPOINTS = Endpoints()


def converted(values: dict[str, str], declared: type[msgspec.Struct]) -> Any:
    """Query parameters as the declared type.  Raises Refused with 400."""
    try:
        return msgspec.convert(values, declared, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(400, f"the query cannot be used: {error}") from None


def decoded(body: bytes, declared: type[msgspec.Struct]) -> Any:
    """A JSON body as the declared type.  Raises Refused with 400."""
    try:
        return msgspec.json.decode(body or b"{}", type=declared)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise Refused(400, f"the body cannot be used: {error}") from None
