"""A remote program: numbered procedures, each with its argument type, result type and handler.

A handler is a function of a `Call` and its decoded arguments that returns the result.  A plain function answers at
once; a coroutine function may wait.  Which of the two it is, is known here, when it is registered.
"""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from dittofs.model.errors import FileError
from dittofs.rpc.credentials import Credentials
from dittofs.rpc.remembering import Again, Doing, Question, Witness

Handler = TypeVar("Handler", bound=Callable[..., Any])

Failure = Callable[["Call", Any, FileError], Any]
"""Builds the result that tells a client of an error: (call, arguments, error) -> result."""


class NoAnswer(Exception):
    """Raised by a handler that must stay silent: the client will send its call again."""


class MustWait(Exception):
    """Raised by a plain handler that cannot answer at once: the coroutine will, and begins in its place."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]):
        super().__init__("the handler has to wait")
        self.coroutine = coroutine


class AuthenticationRefused(Exception):
    """Raised by a handler when the caller's auth flavour is not good enough for what it asks (AUTH_TOOWEAK)."""


Send = Callable[[bytes, int], bool]
"""Sends a record to a port; False if that cannot be done any more."""


def cannot_send(record: bytes, port: int) -> bool:
    """The way to a peer that is gone."""
    return False


class Peer:
    """The other end of a connection, or of a datagram."""

    __slots__ = ("address", "is_loopback", "local_address", "port", "send", "transport")

    def __init__(self, *, address: str, port: int, local_address: str, transport: str, is_loopback: bool):
        self.address = address
        self.port = port
        self.local_address = local_address
        self.transport = transport
        self.is_loopback = is_loopback
        self.send: Send = cannot_send
        """For a call of our own from the socket that the peer talked to: over TCP on its connection, whatever the port;
        over UDP to any port of its address.  A reply to it is dropped."""


class Hold(Protocol):
    """Something that an answer has to wait for: its batch becoming durable."""

    def when_settled(self, settled: Callable[[FileError | None], None]) -> None:
        """Call back once: with None when it is durable, with an error when it is lost."""


class Call:
    """One call under way.  `xid` is as it stood in the call, `services` what the server bound to the program; a handler
    whose answer must not leave yet sets `hold`.  If `is_asked_again`, a lasting answer is worth a `witness`;
    with `again` beside it the witness is for the next calls that are the same up to their last bytes.  Where the
    arguments begin with a cookie, it says that the same question has come before with another one, and is worth a
    `doing`."""

    __slots__ = (
        "again",
        "credentials",
        "doing",
        "hold",
        "is_asked_again",
        "peer",
        "question",
        "services",
        "witness",
        "xid",
    )

    def __init__(self, xid: bytes, peer: Peer, credentials: Credentials, services: Any):
        self.xid = xid
        self.peer = peer
        self.credentials = credentials
        self.services = services
        self.hold: Hold | None = None
        self.is_asked_again = False
        self.witness: Witness | None = None
        self.again: Again | None = None
        self.question: Question | None = None
        self.doing: Doing | None = None


class Procedure:
    """One procedure of a program."""

    __slots__ = (
        "arguments",
        "failure",
        "handler",
        "has_cookie",
        "is_async",
        "is_lasting",
        "is_replayed",
        "is_replayed_over_udp",
        "name",
        "number",
        "result",
        "success",
    )

    def __init__(
        self,
        number: int,
        arguments: Any,
        result: Any,
        handler: Callable[..., Any],
        *,
        failure: Failure | None,
        is_replayed: bool,
        is_replayed_over_udp: bool,
        is_lasting: bool,
        has_cookie: bool,
        success: int | None,
    ):
        self.number = number
        self.name = handler.__name__.rstrip("_").upper()
        self.arguments = arguments
        self.result = result
        self.handler = handler
        self.failure = failure
        self.is_replayed = is_replayed
        self.is_replayed_over_udp = is_replayed or is_replayed_over_udp
        self.is_lasting = is_lasting
        self.has_cookie = has_cookie
        self.success = success
        self.is_async = inspect.iscoroutinefunction(handler)


class Program:
    """A program and version; `NFS3 = Program("NFS", 100003, 3)`."""

    def __init__(self, name: str, number: int, version: int):
        self.name = name
        self.number = number
        self.version = version
        self.procedures: dict[int, Procedure] = {}

    def procedure(
        self,
        number: int,
        arguments: Any,
        result: Any,
        *,
        failure: Failure | None = None,
        is_replayed: bool = False,
        is_replayed_over_udp: bool = False,
        is_lasting: bool = False,
        has_cookie: bool = False,
        success: int | None = None,
    ) -> Callable[[Handler], Handler]:
        """Register a handler.  `is_replayed` marks a procedure that must not run twice for one call [NFS-5]:
        a retransmission gets the first answer; with `is_replayed_over_udp` only that of a datagram, which may be late
        and overtaken by newer calls.  `is_lasting` says that the handler can have a witness for its answer (`Call`),
        `has_cookie` that arguments and result begin with an opaque that is only given back.
        With `success` the result is a union, and the handler returns the arm of that discriminant instead of the union.
        `arguments` and `result` are XDR declarations, or None for void."""

        def register(handler: Handler) -> Handler:
            assert number not in self.procedures, f"{self.name} procedure {number} is registered twice"
            self.procedures[number] = Procedure(
                number,
                arguments,
                result,
                handler,
                failure=failure,
                is_replayed=is_replayed,
                is_replayed_over_udp=is_replayed_over_udp,
                is_lasting=is_lasting,
                has_cookie=has_cookie,
                success=success,
            )
            return handler

        return register
