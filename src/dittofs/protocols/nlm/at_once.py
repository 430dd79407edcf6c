"""LOCK, UNLOCK and TEST of clients that are known, at shares that this server decides about alone: answered at once.

The short way of what `procedures` does for everybody, by the same rules and in the same order.  Whatever is not as it
nearly always is (a client's first lock, one that was silent, a file that is not durable yet, anything wrong) is left to
the procedure itself: these functions then answer None, and have changed nothing.

A client's processes lock and unlock the same ranges over and over: what such a call asks is done again without its
being decoded (`LockAgain`, `UnlockAgain`), as long as all that it depends on is as it was.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from dittofs.clients.watched import Standing
from dittofs.locks.outcomes import Blocked, Granted, Released
from dittofs.locks.spans import Span
from dittofs.locks.values import Acquire, Mode
from dittofs.protocols.nlm.dialects import Dialect
from dittofs.protocols.nlm.granting import Waiting
from dittofs.protocols.nlm.serving import Known, NlmServices
from dittofs.protocols.nlm.types import nlm4_stats
from dittofs.rpc.program import Call, Hold, MustWait
from dittofs.rpc.remembering import Witness

GRANTED, DENIED = nlm4_stats.NLM4_GRANTED, nlm4_stats.NLM4_DENIED
EXCLUSIVE, SHARED = Mode.EXCLUSIVE, Mode.SHARED


Operation = Callable[..., Coroutine[Any, Any, Any]]
"""``(call, arguments, dialect) -> result``."""

ShortWay = Callable[[Dialect, Call, Any], Any]
"""The same without waiting; None, and nothing changed, where the operation itself is to be asked."""


def or_wait(operation: Operation, short_way: ShortWay, dialect: Dialect, call: Call, args: Any) -> Any:
    """The handler of an operation that has a short way."""
    found = short_way(dialect, call, args)
    if found is None:
        raise MustWait(operation(call, args, dialect))
    return found


class LockAgain:
    """A LOCK that was granted, and comes again over the same connection in the same words."""

    __slots__ = ("_client", "_request", "_rules", "_services", "_standing", "_witness", "hold")

    def __init__(self, services: NlmServices, known: Known, request: Acquire, standing: Standing, witness: Witness):
        self._services = services
        self._rules = known.changes
        self._client = known.owner.client
        self._request = request
        self._standing = standing
        self._witness = witness
        self.hold: Hold | None = None

    def again(self) -> bool:
        services, standing = self._services, self._standing
        if not standing.is_good or self._rules != services.shares.changes or not self._witness.is_unchanged():
            return False
        if services.granting.silent and self._client in services.granting.silent:
            return False
        locks = services.locks
        now = locks.now()
        standing.heard(now)
        is_done, self.hold = locks.take_free(self._request, now)
        return is_done


class UnlockAgain:
    """An UNLOCK that does."""

    __slots__ = ("_file", "_owner", "_rules", "_services", "_span", "hold")

    def __init__(self, services: NlmServices, known: Known, span: Span):
        self._services = services
        self._rules = known.changes
        self._file = known.file
        self._owner = known.owner
        self._span = span
        self.hold: Hold | None = None

    def again(self) -> bool:
        services, owner = self._services, self._owner
        if self._rules != services.shares.changes:
            return False
        if services.granting.silent and owner.client in services.granting.silent:
            return False
        is_done, self.hold = services.locks.give_back_alone(self._file, owner, self._span)
        return is_done


def test(dialect: Dialect, call: Call, args: Any) -> Any:
    services: NlmServices = call.services
    wanted = args.alock
    known = services.known(call, wanted)
    if known is None:
        return None
    span = dialect.span_of(wanted.l_offset, wanted.l_len)
    if not known.may_lock():
        return None
    mode = EXCLUSIVE if args.exclusive else SHARED
    lock = services.locks.test_here(known.file, known.owner, span, mode)
    if lock is None:
        return dialect.testres(args.cookie, dialect.testrply(dialect.statuses[GRANTED], None))
    return dialect.testres(args.cookie, dialect.testrply(dialect.statuses[DENIED], dialect.holder_of(lock)))


def lock(dialect: Dialect, call: Call, args: Any) -> Any:
    services: NlmServices = call.services
    wanted = args.alock
    known = services.known(call, wanted)
    if known is None:
        return None
    locks, state = services.locks, args.state
    now = locks.now()
    if not services.is_registered(known, call, wanted.caller_name, dialect.version, state, now):
        return None
    span = dialect.span_of(wanted.l_offset, wanted.l_len)
    mode = SHARED
    if args.exclusive:
        mode = EXCLUSIVE
        known.share.check_writable()
    if not known.may_lock():
        return None
    request = Acquire(known.file, known.owner, span, mode, args.block, args.reclaim, state)
    outcome, call.hold = locks.acquire_here(request, now)
    if type(outcome) is Blocked:
        services.granting.expect(outcome.ticket, Waiting(dialect, args, known.owner.client, call.peer))
    elif type(outcome) is Granted and call.is_asked_again and known.standing and known.witness:
        call.doing = LockAgain(services, known, request, known.standing, known.witness)
    return dialect.res(args.cookie, dialect.outcomes[type(outcome)])


def unlock(dialect: Dialect, call: Call, args: Any) -> Any:
    services: NlmServices = call.services
    held = args.alock
    known = services.known(call, held)
    if known is None:
        return None
    span = dialect.span_of(held.l_offset, held.l_len)
    outcome, call.hold = services.locks.release_here(known.file, known.owner, span)
    if type(outcome) is Released and call.is_asked_again:
        call.doing = UnlockAgain(services, known, span)
    return dialect.res(args.cookie, dialect.outcomes[type(outcome)])
