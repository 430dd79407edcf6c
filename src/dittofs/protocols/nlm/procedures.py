"""The procedures of NLM (RFC 1813 6.3, XNFS chapter 10), each written once for versions 1, 3 and 4 [NLM-1].

Most exist twice on the wire: as a call with an answer, and as a pair of calls, `_MSG` from the client and `_RES` back
to it.  `operation` registers both forms, and takes the `_RES` of others, which mean nothing to a server.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from dittofs.clients.host_ids import host_id
from dittofs.clients.monitoring import joined
from dittofs.locks.outcomes import Blocked
from dittofs.locks.values import Access, Acquire, Mode, Reserve
from dittofs.model.errors import FileError
from dittofs.protocols.nlm import at_once
from dittofs.protocols.nlm.at_once import Operation, ShortWay
from dittofs.protocols.nlm.dialects import DIALECTS, NLM1, Dialect
from dittofs.protocols.nlm.errors import NOT_STORED, status_of
from dittofs.protocols.nlm.granting import Waiting
from dittofs.protocols.nlm.serving import NlmServices
from dittofs.protocols.nlm.types import nlm4_stats
from dittofs.rpc.program import Call, Failure, NoAnswer

Failing = Callable[[Dialect, Any, FileError], Any]
"""Builds the result that tells of an error: (dialect, arguments, error) -> result."""

PROGRAMS = tuple(dialect.program for dialect in DIALECTS)
RESPONSES_BEHIND = 5
"""`_RES` is this far behind its `_MSG`."""

READING = {0, 1, 5, 6, 10, 11, 12, 13, 14, 15}
"""NULL, TEST, GRANTED, their messages, and what is ignored."""

REPEATED = {2, 4}
"""LOCK and UNLOCK, which a client's processes send over and over for the same ranges."""

GRANTED, DENIED = nlm4_stats.NLM4_GRANTED, nlm4_stats.NLM4_DENIED


# What a client hears when it failed.


def with_status(dialect: Dialect, args: Any, error: FileError) -> Any:
    return dialect.res(args.cookie, dialect.statuses[status_of(error)])


def with_test_status(dialect: Dialect, args: Any, error: FileError) -> Any:
    return dialect.testres(args.cookie, dialect.testrply(dialect.statuses[status_of(error)], None))


def with_share_status(dialect: Dialect, args: Any, error: FileError) -> Any:
    return dialect.shareres(args.cookie, dialect.statuses[status_of(error)], 0)


def unless_not_stored(failing: Failing) -> Failing:
    """What gives something back is not answered until it is stored [KEEP-1]: a client that hears of an error has
    forgotten the lock all the same, and would never ask again."""

    def fail(dialect: Dialect, args: Any, error: FileError) -> Any:
        if isinstance(error, NOT_STORED):
            raise NoAnswer(str(error))
        return failing(dialect, args, error)

    return fail


def always_granted(dialect: Dialect, args: Any, error: FileError) -> Any:
    """CANCEL of what cannot be waiting changes nothing [NLM-6]."""
    return dialect.res(args.cookie, dialect.statuses[GRANTED])


def nothing(dialect: Dialect, args: Any, error: FileError) -> None:
    """FREE_ALL has no result."""


# Registration.


def operation(
    number: int,
    *,
    arguments: str,
    result: str | None = "res",
    failing: Failing,
    message: int | None = None,
    since: int = 1,
    short_way: ShortWay | None = None,
) -> Callable[[Operation], Operation]:
    """Register a coroutine function ``(call, arguments, dialect) -> result`` for every version from `since` on;
    `arguments` and `result` name declarations of the dialect, `message` is the number of its `_MSG` form; the
    `short_way` is tried first."""

    def register(function: Operation) -> Operation:
        for dialect in DIALECTS:
            if dialect.version < since:
                continue
            taken = getattr(dialect, arguments)
            answered = None if result is None else getattr(dialect, result)
            _register_call(function, dialect, number, taken, answered, failing, short_way)
            if message is not None:
                _register_message(function, dialect, message, taken, answered, failing)
        return function

    return register


def _register_call(
    function: Operation,
    dialect: Dialect,
    number: int,
    arguments: Any,
    result: Any,
    failing: Failing,
    short_way: ShortWay | None,
) -> None:
    # Not a closure: one frame less, and a coroutine function is still known for one.
    answer: Any = partial(function, dialect=dialect)
    if short_way is not None:
        answer = partial(at_once.or_wait, function, short_way, dialect)

    def fail(call: Call, args: Any, error: FileError) -> Any:
        return failing(dialect, args, error)

    _register(dialect, function.__name__, number, arguments, result, answer, fail)


def _register_message(
    function: Operation, dialect: Dialect, number: int, arguments: Any, result: Any, failing: Failing
) -> None:
    name = function.__name__
    response = number + RESPONSES_BEHIND
    exchange = dialect.outgoing(f"{name.upper()}_RES", response, result, None)

    async def answer(call: Call, args: Any) -> None:
        services: NlmServices = call.services
        found = await function(call, args, dialect)

        def stored(error: FileError | None) -> None:
            if error is None:  # else `fail` is asked what to say
                services.answering.send(call.peer, exchange, found)

        if call.hold is None:
            stored(None)
        else:
            call.hold.when_settled(stored)

    def fail(call: Call, args: Any, error: FileError) -> None:
        services: NlmServices = call.services
        services.answering.send(call.peer, exchange, failing(dialect, args, error))

    async def ignore(call: Call, args: Any) -> None:
        """We ask nothing that is answered this way."""

    _register(dialect, f"{name}_msg", number, arguments, None, answer, fail)
    _register(dialect, f"{name}_res", response, result, None, ignore, None)


def _register(
    dialect: Dialect,
    name: str,
    number: int,
    arguments: Any,
    result: Any,
    answer: Callable[[Call, Any], Any],
    fail: Failure | None,
) -> None:
    answer.__name__ = name
    # Sent twice is as good as once, but for a late datagram: an old UNLOCK would take away a lock that was taken since.
    is_change = number not in READING
    dialect.program.procedure(
        number, arguments, result, failure=fail, is_replayed_over_udp=is_change, has_cookie=number in REPEATED
    )(answer)


# Procedures.


def _register_null() -> None:
    for program in PROGRAMS:

        def null(call: Call, args: None) -> None:
            """RFC 1813 6.3.1."""

        program.procedure(0, None, None)(null)


_register_null()


@operation(1, arguments="testargs", result="testres", failing=with_test_status, message=6, short_way=at_once.test)
async def test(call: Call, args: Any, dialect: Dialect) -> Any:
    """Would this lock be granted?  If not, who is in the way.  Served in grace too."""
    services: NlmServices = call.services
    wanted = args.alock
    span = dialect.span_of(wanted.l_offset, wanted.l_len)
    target = services.target(call, wanted.fh)
    await target.check_access()
    owner = services.owner(call, wanted.caller_name, wanted.svid, wanted.oh)
    await services.hear(owner)
    lock = await services.locks.test(target.file, owner, span, _mode(args.exclusive))
    if lock is None:
        return dialect.testres(args.cookie, dialect.testrply(dialect.statuses[GRANTED], None))
    return dialect.testres(args.cookie, dialect.testrply(dialect.statuses[DENIED], dialect.holder_of(lock)))


@operation(2, arguments="lockargs", failing=with_status, message=7, short_way=at_once.lock)
async def lock(call: Call, args: Any, dialect: Dialect) -> Any:
    """The same request sent again is recognised by the table [NLM-4]; `state` tells the client's reboots apart."""
    return await _lock(call, args, dialect, state=args.state)


@operation(22, arguments="lockargs", failing=with_status, since=3)
async def nm_lock(call: Call, args: Any, dialect: Dialect) -> Any:
    """As LOCK, of a client that has no status monitor, and so no state."""
    return await _lock(call, args, dialect, state=0)


async def _lock(call: Call, args: Any, dialect: Dialect, *, state: int) -> Any:
    services: NlmServices = call.services
    wanted = args.alock
    span = dialect.span_of(wanted.l_offset, wanted.l_len)
    target = services.target(call, wanted.fh)
    if args.exclusive:
        target.share.check_writable()
    await target.check_access()
    owner = services.owner(call, wanted.caller_name, wanted.svid, wanted.oh)
    recorded = await services.register(call, target, wanted.caller_name, version=dialect.version, state=state)
    await services.hear(owner)
    request = Acquire(
        target.file, owner, span, _mode(args.exclusive), wait=args.block, reclaim=args.reclaim, state=state
    )
    outcome, hold = await services.locks.acquire(request)
    call.hold = hold if recorded is None else joined(recorded, hold)
    if type(outcome) is Blocked:
        services.granting.expect(outcome.ticket, Waiting(dialect, args, owner.client, call.peer))
    return dialect.res(args.cookie, dialect.outcomes[type(outcome)])


@operation(3, arguments="cancargs", failing=unless_not_stored(always_granted), message=8)
async def cancel(call: Call, args: Any, dialect: Dialect) -> Any:
    """Needs no permission, and finds only what this host asked for [NLM-6] [NLM-7]."""
    services: NlmServices = call.services
    wanted = args.alock
    span = dialect.span_of(wanted.l_offset, wanted.l_len)
    target = services.target(call, wanted.fh)
    owner = services.owner(call, wanted.caller_name, wanted.svid, wanted.oh)
    await services.hear(owner)
    _, call.hold = await services.locks.cancel(target.file, owner, span, _mode(args.exclusive))
    return dialect.res(args.cookie, dialect.statuses[GRANTED])


@operation(4, arguments="unlockargs", failing=unless_not_stored(with_status), message=9, short_way=at_once.unlock)
async def unlock(call: Call, args: Any, dialect: Dialect) -> Any:
    """Needs no permission, and gives back only what this host holds; nothing held is given back too [NLM-6] [NLM-7]."""
    services: NlmServices = call.services
    held = args.alock
    span = dialect.span_of(held.l_offset, held.l_len)
    target = services.target(call, held.fh)
    owner = services.owner(call, held.caller_name, held.svid, held.oh)
    await services.hear(owner)
    outcome, call.hold = await services.locks.release(target.file, owner, span)
    return dialect.res(args.cookie, dialect.outcomes[type(outcome)])


@operation(5, arguments="testargs", failing=with_status, message=10)
async def granted(call: Call, args: Any, dialect: Dialect) -> Any:
    """A callback of some other server: we never wait for anybody, as any host says that does not."""
    return dialect.res(args.cookie, dialect.statuses[DENIED])


@operation(20, arguments="shareargs", result="shareres", failing=with_share_status, since=3)
async def share(call: Call, args: Any, dialect: Dialect) -> Any:
    """A share reservation of the whole file: what it is for, and what it denies to others."""
    services: NlmServices = call.services
    wanted = args.share
    target = services.target(call, wanted.fh)
    access = Access(wanted.access)
    if access & Access.WRITE:
        target.share.check_writable()
    await target.check_access()
    owner = services.owner(call, wanted.caller_name, 0, wanted.oh)
    recorded = await services.register(call, target, wanted.caller_name, version=dialect.version)
    await services.hear(owner)
    request = Reserve(target.file, owner, access, Access(wanted.mode), reclaim=args.reclaim)
    outcome, hold = await services.locks.reserve(request)
    call.hold = hold if recorded is None else joined(recorded, hold)
    return dialect.shareres(args.cookie, dialect.outcomes[type(outcome)], 0)


@operation(21, arguments="shareargs", result="shareres", failing=unless_not_stored(with_share_status), since=3)
async def unshare(call: Call, args: Any, dialect: Dialect) -> Any:
    services: NlmServices = call.services
    held = args.share
    target = services.target(call, held.fh)
    owner = services.owner(call, held.caller_name, 0, held.oh)
    await services.hear(owner)
    _, call.hold = await services.locks.unreserve(target.file, owner)
    return dialect.shareres(args.cookie, dialect.statuses[GRANTED], 0)


@operation(23, arguments="notify", result=None, failing=unless_not_stored(nothing), since=3)
async def free_all(call: Call, args: Any, dialect: Dialect) -> None:
    """A client starts anew, and frees what it has left behind: it alone, at every address by itself [NLM-7]."""
    services: NlmServices = call.services
    call.hold = await services.hosts.freed_all(args.name, call.peer.address)
    services.granting.silent.discard(host_id(args.name, call.peer.address))


def _mode(is_exclusive: bool) -> Mode:
    return Mode.EXCLUSIVE if is_exclusive else Mode.SHARED


assert NLM1.program.procedures.keys() == set(range(16)), "version 1 ends with GRANTED_RES"
