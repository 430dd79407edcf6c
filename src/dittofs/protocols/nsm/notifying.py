"""Telling others: our clients that this server has restarted [NSM-4], programs of this host that another one has.

A client that cannot be reached is not a client that crashed: it is tried again as long as there is time, and its
record stays for the next start.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from dittofs.protocols.nsm.status import Monitored
from dittofs.protocols.nsm.types import PROGRAM, VERSION, stat_chge, status
from dittofs.rpc.calling import CallFailed, Exchange

log = structlog.get_logger()

SM_NOTIFY = Exchange("SM_NOTIFY", PROGRAM, VERSION, 6, stat_chge, None)

ATTEMPT_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0
CALLS_AT_ONCE = 64
PROGRAMS_TOLD_AT_ONCE = 256
THIS_HOST = "127.0.0.1"


class Reach(Protocol):
    """Performs one exchange with a program of a host, found through the host's port mapper.  Raises CallFailed."""

    async def __call__(
        self,
        exchange: Exchange,
        arguments: Any,
        *,
        address: str,
        local_address: str | None,
        timeout_seconds: float,
        transports: Sequence[str],
    ) -> Any: ...


@dataclass(frozen=True, slots=True)
class Target:
    """A host to be told, from the address of ours that it knows."""

    address: str
    local_address: str | None
    acknowledged: Callable[[], None]


class Notifier:
    """`name` is what this server calls itself to its clients."""

    def __init__(self, name: str, reach: Reach):
        self._name = name.encode()
        self._reach = reach
        self._turns = asyncio.Semaphore(CALLS_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, targets: Iterable[Target], state: int, *, seconds: float) -> None:
        """Tell all of them, again and again for so long, each until it has answered."""
        by_host: dict[tuple[str, str | None], list[Target]] = {}
        for target in targets:
            by_host.setdefault((target.address, target.local_address), []).append(target)
        for same in by_host.values():
            self._begin(self._tell_host(same, stat_chge(self._name, state), seconds))

    def tell_program(self, watched: Monitored, state: int) -> None:
        """A host that a program of this one has watched was rebooted.  Said once: over loopback nothing is lost."""
        if len(self._tasks) < PROGRAMS_TOLD_AT_ONCE:
            self._begin(self._tell_program(watched, state))

    async def stop(self) -> None:
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell_host(self, same: list[Target], news: stat_chge, seconds: float) -> None:
        address, local_address = same[0].address, same[0].local_address
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                async with self._turns:
                    await self._call(SM_NOTIFY, news, address, local_address)
                break
            except CallFailed as error:
                reason = str(error)
            if loop.time() + pause >= deadline:
                log.warning("a client did not hear of the restart", client=address, reason=reason)
                return
            log.debug("a client is not reached", client=address, reason=reason)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        log.info("a client has heard of the restart", client=address, state=news.state)
        for target in same:
            target.acknowledged()

    async def _tell_program(self, watched: Monitored, state: int) -> None:
        asker = watched.asker
        exchange = Exchange("SM_MON callback", asker.program, asker.version, asker.procedure, status, None)
        try:
            await self._call(exchange, status(watched.name, state, watched.private), THIS_HOST, None)
        except CallFailed as error:
            log.warning("a program of this host was not told of a reboot", program=asker.program, reason=str(error))

    async def _call(self, exchange: Exchange, arguments: Any, address: str, local_address: str | None) -> None:
        """Over UDP, as status monitors do; over TCP where that leads nowhere."""
        for transport in ("udp", "tcp"):
            try:
                await self._reach(
                    exchange,
                    arguments,
                    address=address,
                    local_address=local_address,
                    timeout_seconds=ATTEMPT_SECONDS,
                    transports=(transport,),
                )
                return
            except CallFailed:
                if transport == "tcp":
                    raise
