"""LOCK, UNLOCK and TEST of clients that are known, at shares that this server decides about alone: answered at once.

The short way of what `procedures` does for everybody, by the same rules and in the same order.  Whatever is not as it
nearly always is (a client's first lock, one that was silent, a file that is not durable yet, anything wrong) is left to
the procedure itself: these functions then answer None, and have changed nothing.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from dittofs.locks.outcomes import Blocked
from dittofs.locks.values import Mode
from dittofs.protocols.nlm.dialects import Dialect
from dittofs.protocols.nlm.granting import Waiting
from dittofs.protocols.nlm.serving import NlmServices
from dittofs.protocols.nlm.types import nlm4_stats
from dittofs.rpc.program import Call, MustWait

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


def test(dialect: Dialect, call: Call, args: Any) -> Any:
    services: NlmServices = call.services
    claim = services.claim(dialect, call, args.alock)
    if claim is None or not claim.known.may_lock():
        return None
    known = claim.known
    mode = EXCLUSIVE if args.exclusive else SHARED
    lock = services.locks.test_here(known.file, known.owner, claim.span, mode)
    if lock is None:
        return dialect.testres(args.cookie, dialect.testrply(dialect.statuses[GRANTED], None))
    return dialect.testres(args.cookie, dialect.testrply(dialect.statuses[DENIED], dialect.holder_of(lock)))


def lock(dialect: Dialect, call: Call, args: Any) -> Any:
    services: NlmServices = call.services
    claim = services.claim(dialect, call, args.alock)
    if claim is None:
        return None
    known, locks, state = claim.known, services.locks, args.state
    now = locks.now()
    if not services.is_registered(known, call, args.alock.caller_name, dialect.version, state, now):
        return None
    if args.exclusive:
        known.share.check_writable()
    if not known.may_lock():
        return None
    request = claim.request(is_exclusive=args.exclusive, wait=args.block, reclaim=args.reclaim, state=state)
    outcome, call.hold = locks.acquire_here(request, now)
    if type(outcome) is Blocked:
        services.granting.expect(outcome.ticket, Waiting(dialect, args, known.owner.client, call.peer))
    return dialect.res(args.cookie, dialect.outcomes[type(outcome)])


def unlock(dialect: Dialect, call: Call, args: Any) -> Any:
    services: NlmServices = call.services
    claim = services.claim(dialect, call, args.alock)
    if claim is None:
        return None
    outcome, call.hold = services.locks.release_here(claim.known.file, claim.known.owner, claim.span)
    return dialect.res(args.cookie, dialect.outcomes[type(outcome)])
