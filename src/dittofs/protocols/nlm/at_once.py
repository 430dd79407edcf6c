"""LOCK, UNLOCK and TEST of owners that are known, at shares that this server decides about alone: answered at once.

The short way of what `procedures` does for everybody, by the same rules and in the same order.  Whatever is not as it
nearly always is (a first call, a client that was silent, a file that is not durable yet, anything wrong) is left to
the procedure itself: these functions then answer None, and have changed nothing.
"""

from typing import Any

from dittofs.locks.outcomes import Blocked
from dittofs.locks.values import Acquire, Mode
from dittofs.protocols.nlm.dialects import Dialect
from dittofs.protocols.nlm.granting import Waiting
from dittofs.protocols.nlm.serving import NlmServices
from dittofs.protocols.nlm.types import nlm4_stats
from dittofs.rpc.program import Call

GRANTED, DENIED = nlm4_stats.NLM4_GRANTED, nlm4_stats.NLM4_DENIED
EXCLUSIVE, SHARED = Mode.EXCLUSIVE, Mode.SHARED


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
    now = services.locks.now()
    state = args.state
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
    outcome, call.hold = services.locks.acquire_here(request, now)
    if type(outcome) is Blocked:
        services.granting.expect(outcome.ticket, Waiting(dialect, args, known.owner.client, call.peer))
    return dialect.res(args.cookie, dialect.outcomes[type(outcome)])


def unlock(dialect: Dialect, call: Call, args: Any) -> Any:
    services: NlmServices = call.services
    held = args.alock
    known = services.known(call, held)
    if known is None:
        return None
    span = dialect.span_of(held.l_offset, held.l_len)
    outcome, call.hold = services.locks.release_here(known.file, known.owner, span)
    return dialect.res(args.cookie, dialect.outcomes[type(outcome)])
