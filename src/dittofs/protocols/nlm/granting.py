"""What an offer of the lock table means here: NLM_GRANTED to the client that waits [NLM-5].

For every ticket that this protocol was given, the request is kept as it came: the callback carries its handle, range,
owner, caller and cookie, because clients match by them, and goes to the address it came from and to no other.  Where an
attempt leaves no doubt that the client does not have the lock, the offer is withdrawn at once.  Where there is doubt it
is kept until `give_up_seconds` have passed, and then the client counts as silent until it is heard again.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import structlog

from dittofs.locks.outcomes import Offer, Refuse, Settled
from dittofs.locks.service import LockService
from dittofs.model.errors import FileError
from dittofs.model.ids import ClientId, Ticket
from dittofs.model.later import Resumed
from dittofs.protocols.nlm.answering import Remote
from dittofs.protocols.nlm.dialects import DIALECTS, Dialect
from dittofs.protocols.nlm.types import nlm4_stats
from dittofs.rpc.calling import BadReply, CallFailed, NoReply, Refused, Unreachable
from dittofs.rpc.program import Peer

log = structlog.get_logger()

MAX_AT_ONCE = 1024
"""Callbacks that have a socket at the same time; more than that wait for their turn."""

MAX_BEGUN_AT_ONCE = 32
"""Callbacks that leave at once: the calls of others wait for so many connections at most."""

CONCLUDE_AGAIN_SECONDS = 0.5
FAILURES_KEPT = 10_000
EARLY_KEPT = 1024

GRANTED_NUMBER = 5
GRANTED_CALLS = {
    dialect: dialect.outgoing("GRANTED", GRANTED_NUMBER, dialect.testargs, dialect.res) for dialect in DIALECTS
}


class Waiting:
    """A blocked request as it came over the wire, and where its client is to be called."""

    __slots__ = ("address", "arguments", "client", "dialect", "local_address")

    def __init__(self, dialect: Dialect, args: Any, client: ClientId, peer: Peer):
        self.dialect = dialect
        self.arguments = dialect.testargs(args.cookie, args.exclusive, args.alock)
        self.client = client
        self.address = peer.address
        self.local_address = peer.local_address


@dataclass(frozen=True, slots=True)
class CallbackFailure:
    """Why a client could not be told that it has a lock, and when that was, in seconds since 1970."""

    at: float
    text: str


class Verdict(Enum):
    """What one attempt showed."""

    HELD = auto()
    NOT_HELD = auto()
    UNKNOWN = auto()


class CallbackResult(Enum):
    """How it ended; the values are the labels of the metric [OPS-4]."""

    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"


Finished = Callable[[CallbackResult, float], None]
"""Told of each callback that is over, with the seconds it took."""


class Granting:
    """All blocked requests of this protocol, and the callbacks under way.  A listener of the lock service."""

    def __init__(self, locks: LockService, remote: Remote, *, attempt_seconds: float, give_up_seconds: float):
        self.silent: set[ClientId] = set()
        """Clients that gave no answer, and were not heard since."""
        self.results: Counter[CallbackResult] = Counter()
        self.watchers: list[Finished] = []
        self._locks = locks
        self._remote = remote
        self._attempt_seconds = attempt_seconds
        self._give_up_seconds = give_up_seconds
        self._waiting: dict[Ticket, Waiting] = {}
        self._early: dict[Ticket, Offer] = {}
        self._tasks: dict[Ticket, asyncio.Task[None]] = {}
        """Callbacks that the end of their ticket stops."""
        self._running: set[asyncio.Task[None]] = set()
        """The same, and those that only have to tell the table what came of it."""
        self._failures: dict[ClientId, CallbackFailure] = {}
        self._room = asyncio.Semaphore(MAX_AT_ONCE)
        self._is_beginning = False

    def __len__(self) -> int:
        """Blocked requests, offered ones included."""
        return len(self._waiting)

    def expect(self, ticket: Ticket, waiting: Waiting) -> None:
        """A request was answered BLOCKED; if it was sent again, the newest counts."""
        self._waiting[ticket] = waiting
        offer = self._early.pop(ticket, None)
        if offer is not None:
            self.offered(offer)

    def last_failure(self, client: ClientId) -> CallbackFailure | None:
        """Why the last callback to a client failed; None after one that did not."""
        return self._failures.get(client)

    async def close(self) -> None:
        """Stop calling; clients that wait find out when they ask again."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    # What the lock service tells.

    def offered(self, offer: Offer) -> None:
        ticket = offer.ticket
        waiting = self._waiting.get(ticket)
        if waiting is None:
            # The store of the lock took its time, and the answer to the request is still on its way to `expect`; or the
            # ticket is another protocol's.
            if len(self._early) >= EARLY_KEPT:
                del self._early[next(iter(self._early))]
            self._early[ticket] = offer
            return
        assert ticket not in self._tasks, "a ticket is offered once at a time"
        self._begin(ticket, self._offer(ticket, waiting))

    def _begin(self, ticket: Ticket, callback: Coroutine[Any, Any, None]) -> None:
        """Call as far as that goes without waiting, and leave the rest to a task: the next holder hears that he has the
        lock before anything else is done.  Where many are called at once, they wait for their turn."""
        rest: Coroutine[Any, Any, None] | Resumed = callback
        if len(self._running) < MAX_BEGUN_AT_ONCE:
            self._is_beginning = True
            rest = Resumed(callback, callback.send(None))
            self._is_beginning = False
        task = self._tasks[ticket] = asyncio.ensure_future(rest)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def refused(self, refusal: Refuse) -> None:
        self._end(refusal.ticket)

    def settled(self, settled: Settled) -> None:
        self._end(settled.ticket)

    def _end(self, ticket: Ticket) -> None:
        """The ticket is over: whoever is still trying to deliver it stops."""
        self._waiting.pop(ticket, None)
        self._early.pop(ticket, None)
        task = self._tasks.pop(ticket, None)
        if task is not None:
            task.cancel()

    # Calling back.

    async def _offer(self, ticket: Ticket, waiting: Waiting) -> None:
        began = time.monotonic()
        result = CallbackResult.CANCELLED
        try:
            async with self._room:
                verdict = await self._deliver(waiting)
            result = CallbackResult.SUCCESS if verdict is Verdict.HELD else CallbackResult.FAILED
        except Exception as error:  # the lock must not stay with somebody who was never told
            log.error("callback failed", client=waiting.client, exc_info=error)
            result, verdict = CallbackResult.FAILED, Verdict.UNKNOWN
        finally:
            self._count(result, time.monotonic() - began)
        if self._is_beginning:
            await asyncio.sleep(0)  # the lock service is in the middle of telling of its effects
        while True:
            try:
                await self._conclude(ticket, waiting, verdict)
                return
            except FileError as error:  # the store is away: the table cannot be told before it is back
                log.warning("an offer cannot be concluded yet", client=waiting.client, reason=str(error))
                await asyncio.sleep(CONCLUDE_AGAIN_SECONDS)

    async def _conclude(self, ticket: Ticket, waiting: Waiting, verdict: Verdict) -> None:
        # This task is not to be stopped by the end of the ticket that it brings about itself.
        self._tasks.pop(ticket, None)
        match verdict:
            case Verdict.HELD:
                self._failures.pop(waiting.client, None)
                await self._locks.settle(ticket)
            case Verdict.NOT_HELD:
                await self._locks.refuse_offer(ticket)
            case Verdict.UNKNOWN:
                self.silent.add(waiting.client)
                await self._locks.refuse_offer(ticket, is_silent=True)

    async def _deliver(self, waiting: Waiting) -> Verdict:
        """Attempts until the client has answered, or the time is up.  Once one may have arrived, a refusal of the next
        says nothing: the client may have the lock already."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._give_up_seconds
        is_first = True
        while True:
            began = loop.time()
            verdict = await self._attempt(waiting, min(self._attempt_seconds, give_up_at - began))
            if verdict is Verdict.HELD or (verdict is Verdict.NOT_HELD and is_first):
                return verdict
            is_first = False
            next_at = began + self._attempt_seconds
            await asyncio.sleep(min(next_at, give_up_at) - loop.time())
            if next_at >= give_up_at:
                return Verdict.UNKNOWN

    async def _attempt(self, waiting: Waiting, seconds: float) -> Verdict:
        try:
            answer = await self._remote.call(
                GRANTED_CALLS[waiting.dialect],
                waiting.arguments,
                address=waiting.address,
                local_address=waiting.local_address,
                timeout_seconds=seconds,
            )
        except (Refused, Unreachable, NoReply, BadReply) as error:
            self._failed(waiting, f"callback not reachable: {error}")
            return Verdict.NOT_HELD if isinstance(error, Refused) else Verdict.UNKNOWN
        except CallFailed as error:
            self._failed(waiting, f"callback not accepted: {error}")
            return Verdict.NOT_HELD
        status = nlm4_stats(answer.stat)
        if status is nlm4_stats.NLM4_GRANTED:
            return Verdict.HELD
        self._failed(waiting, f"callback refused: the client answers {status.name}")
        return Verdict.NOT_HELD

    def _failed(self, waiting: Waiting, text: str) -> None:
        client = waiting.client
        tell = log.debug if client in self._failures else log.warning
        tell("callback failed", client=client, reason=text)
        self._failures.pop(client, None)
        if len(self._failures) >= FAILURES_KEPT:
            del self._failures[next(iter(self._failures))]
        self._failures[client] = CallbackFailure(self._locks.now(), text)

    def _count(self, result: CallbackResult, seconds: float) -> None:
        self.results[result] += 1
        for watcher in self.watchers:
            watcher(result, seconds)
