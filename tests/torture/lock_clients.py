"""Simulated NFS clients that lock as the Linux client does, through every crash of the server and some of their own.

Each is a host with an address, a port mapper, a lock service that is called back, and a status monitor that hears of
the server's restarts.  What they do and see goes into one history.  All of it runs in the one thread of the network.
"""

import asyncio
import itertools
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from dittofs.client.nlm import LockOwner, Range, exchange_of
from dittofs.client.nsm import NOTIFY
from dittofs.net import outbound
from dittofs.protocols.nlm.dialects import NLM4
from dittofs.protocols.nlm.types import nlm4_lock, nlm4_stats
from dittofs.protocols.nsm.types import stat_chge
from dittofs.rpc.calling import CallFailed, Exchange, auth_sys
from tests.hosts.host import Grant, Host
from tests.hosts.network import Network
from tests.hosts.statd import Notice
from tests.torture.lock_history import Held, History, Probe, Reclaim, Waited

GRANTED, DENIED, BLOCKED = nlm4_stats.NLM4_GRANTED, nlm4_stats.NLM4_DENIED, nlm4_stats.NLM4_BLOCKED
GRACE = nlm4_stats.NLM4_DENIED_GRACE_PERIOD
CREDENTIAL = auth_sys(uid=0, gid=0)

CALL_SECONDS = 30.0
"""A server that is alive answers; one that dies closes its connections."""
RETRY_SECONDS = 0.05
GRACE_RETRY_SECONDS = 0.1
POLL_SECONDS = 10.0
"""Longer than a waiter may wait: what a lost callback costs is not hidden by asking again."""

SPANS = ((0, 1), (0, 2), (1, 3), (2, 4), (0, 4), (3, 2**64))
FILES = 4


class Rebooted(Exception):
    """The client died: whatever it was doing is over."""


@dataclass(slots=True)
class Server:
    """The server as clients find it."""

    handles: list[bytes]
    history: History
    port: int = 0

    @property
    def run(self) -> int:
        return len(self.history.runs) - 1

    def opened(self, run: int) -> None:
        """A lock was decided upon: this run is not in grace."""
        self.history.runs[run].opened = min(self.history.runs[run].opened, time.monotonic())


@dataclass(slots=True, eq=False)
class Piece:
    """Bytes that a process holds."""

    held: Held
    owner: LockOwner


@dataclass(slots=True, eq=False)
class Process:
    """One owner of locks on a client."""

    owner: LockOwner
    name: str
    pieces: list[Piece] = field(default_factory=list)
    wanted: Any = None
    """The lock of the request that waits, as it went over the wire."""
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    is_granted: bool = False


class Client:
    """One host and its processes."""

    def __init__(self, network: Network, server: Server, name: bytes, chance: random.Random, processes: int):
        self.server = server
        self.history = server.history
        self.random = chance
        self.host = Host(network, name, on_granted=self._granted)
        self.counts: Counter[str] = Counter()
        self.is_stopping = False
        self._processes: list[Process] = []
        self._count = processes
        self._svids = itertools.count(1)
        self._state = 1
        self._boots = 0
        self._server_state = 0
        self._recovering = asyncio.Lock()
        self._unfreed: list[Held] = []
        """What is given back, as far as the client is concerned, and the server has not said that it knows."""
        self._tasks: set[asyncio.Task[None]] = set()

    # Life.

    async def boot(self) -> None:
        self._processes = [self._new_process() for _ in range(self._count)]
        for process in self._processes:
            task = asyncio.ensure_future(self._live(process, self._boots))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def reboot(self) -> None:
        """Die with everything that is held, and come back; the status monitor tells the server."""
        died = time.monotonic()
        self._boots += 1
        dead, self._processes = self._processes, []
        for process in dead:
            process.woken.set()
            for piece in process.pieces:
                piece.held.until = died
                self._unfreed.append(piece.held)
        # What it was given and did not live to hear of is in the way of others too, until it is heard again.
        for file in range(FILES):
            unknown = Held(self.host.name.decode(), str(file), 0, 2**64, is_exclusive=True, since=died, until=died)
            self.history.held.append(unknown)
            self._unfreed.append(unknown)
        await self._ended()
        self._state += 2
        await self._ask(NOTIFY, stat_chge(self.host.name, self._state), self._boots)
        self._freed([*self._unfreed])
        self.counts["reboots"] += 1
        await self.boot()

    async def stop(self) -> None:
        """Finish what is under way, and take no more."""
        self.is_stopping = True
        await self._ended()

    async def _ended(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _new_process(self) -> Process:
        svid = next(self._svids)
        name = f"{self.host.name.decode()}/{svid}"
        return Process(LockOwner(svid, b"%s-%d" % (self.host.name, svid)), name)

    async def _live(self, process: Process, boot: int) -> None:
        try:
            while not self.is_stopping:
                await asyncio.sleep(self.random.uniform(0, 0.03))
                await self._lock_and_unlock(process, boot)
        except Rebooted:
            pass

    async def _lock_and_unlock(self, process: Process, boot: int) -> None:
        file, (start, end) = self.random.randrange(FILES), self.random.choice(SPANS)
        is_exclusive, block = self.random.random() < 0.7, self.random.random() < 0.7
        if not await self._lock(process, boot, file, start, end, is_exclusive, block):
            return
        # Mostly short, so that much happens; some long, so that the next kill finds them.
        await asyncio.sleep(self.random.uniform(0, 0.05) if self.random.random() < 0.8 else self.random.uniform(0.2, 2))
        if end - start > 1 and self.random.random() < 0.3:  # the middle of a range, or its end, goes first
            cut = self.random.randrange(start, min(end, start + 4))
            await self._unlock(process, boot, file, cut, cut + 1)
            await asyncio.sleep(self.random.uniform(0, 0.02))
        await self._unlock(process, boot, file, start, end)

    # Locking, as nlmclnt_lock does it.

    async def _lock(
        self, process: Process, boot: int, file: int, start: int, end: int, is_exclusive: bool, block: bool
    ) -> bool:
        lock = self._wire(process.owner, file, start, end)
        wait = Waited(process.name, str(file), start, end, is_exclusive, asked=0.0)
        process.wanted, process.is_granted = lock if block else None, False
        patience = time.monotonic() + self.random.uniform(0.05, 2.0) if self.random.random() < 0.1 else float("inf")
        try:
            while True:
                known = self._server_state
                process.woken.clear()
                status, run = await self._call_lock(lock, boot, is_exclusive=is_exclusive, block=block)
                if status == BLOCKED:
                    wait.asked = wait.asked or time.monotonic()
                    if not await self._called_back(process, boot, patience):
                        await self._give_up(process, boot, lock, is_exclusive)
                        return False
                elif status != GRANTED:
                    self.counts["denied"] += 1
                    return False
                else:
                    process.is_granted = True
                if process.is_granted and known == self._server_state:
                    break
                # Woken by a restart, or granted by a server that has restarted since: it is asked again.
                process.is_granted = False
        finally:
            process.wanted = None
        self._take(process, wait, run)
        return True

    def _take(self, process: Process, wait: Waited, run: int) -> None:
        now = time.monotonic()
        held = Held(process.name, wait.file, wait.start, wait.end, wait.is_exclusive, since=now, run=run)
        self.history.held.append(held)
        process.pieces.append(Piece(held, process.owner))
        self.counts["granted"] += 1
        if wait.asked:
            wait.granted = now
            self.history.waited.append(wait)
            self.counts["granted after waiting"] += 1

    async def _call_lock(self, lock: nlm4_lock, boot: int, *, is_exclusive: bool, block: bool) -> tuple[Any, int]:
        """The status and the run that said it; grace is waited for."""
        while True:
            arguments = NLM4.lockargs(b"%d" % lock.svid, block, is_exclusive, lock, False, self._state)
            answer, run = await self._ask(exchange_of(NLM4, "LOCK"), arguments, boot)
            if answer.stat != GRACE:
                self.server.opened(run)
                return answer.stat, run
            self.counts["held off by grace"] += 1
            await asyncio.sleep(GRACE_RETRY_SECONDS)
            self._check(boot)

    async def _called_back(self, process: Process, boot: int, patience: float) -> bool:
        """Wait for the callback, for a restart of the server, or for long; false if patience is over."""
        seconds = min(POLL_SECONDS, patience - time.monotonic())
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await process.woken.wait()
        except TimeoutError:
            return seconds == POLL_SECONDS
        self._check(boot)
        return True

    async def _give_up(self, process: Process, boot: int, lock: nlm4_lock, is_exclusive: bool) -> None:
        """CANCEL; it may have been granted meanwhile, so UNLOCK."""
        process.wanted = None
        cancelled = NLM4.cancargs(b"c", True, is_exclusive, lock)
        await self._ask(exchange_of(NLM4, "CANCEL"), cancelled, boot)
        await self._ask(exchange_of(NLM4, "UNLOCK"), NLM4.unlockargs(b"u", lock), boot)
        self.counts["given up"] += 1

    async def _unlock(self, process: Process, boot: int, file: int, start: int, end: int) -> None:
        """What is not ours any more is forgotten before the server is told, as Linux does; never during a reclaim."""
        async with self._recovering:
            self._check(boot)
            gone = self._give_back(process, start, end)
            self._unfreed += gone
        arguments = NLM4.unlockargs(b"u", self._wire(process.owner, file, start, end))
        await self._ask(exchange_of(NLM4, "UNLOCK"), arguments, boot)
        self._freed(gone)

    def _freed(self, gone: list[Held]) -> None:
        for held in gone:
            held.freed = time.monotonic()
            self._unfreed.remove(held)

    def _give_back(self, process: Process, start: int, end: int) -> list[Held]:
        """Cut the bytes out of what is held; each part has a history of its own."""
        now, kept, gone = time.monotonic(), [], []
        for piece in process.pieces:
            held = piece.held
            if held.end <= start or end <= held.start:
                kept.append(piece)
                continue
            for left, right in ((held.start, start), (end, held.end)):
                if left < right:
                    part = Held(held.owner, held.file, left, right, held.is_exclusive, since=held.since, run=held.run)
                    self.history.held.append(part)
                    kept.append(Piece(part, piece.owner))
            held.start, held.end, held.until = max(held.start, start), min(held.end, end), now
            gone.append(held)
        process.pieces = kept
        return gone

    # Restarts of the server.

    def _granted(self, grant: Grant) -> nlm4_stats:
        """NLM_GRANTED: whoever waits for this very lock has it."""
        for process in self._processes:
            if process.wanted is not None and process.wanted == grant.lock:
                process.is_granted = True
                process.woken.set()
                self.counts["called back"] += 1
                return GRANTED
        return DENIED

    def noticed(self, notice: Notice) -> None:
        """SM_NOTIFY: the server has restarted.  Whoever waits asks again, whatever is held is reclaimed."""
        if notice.state == self._server_state:
            return
        self._server_state = notice.state
        self.counts["restarts heard of"] += 1
        task = asyncio.ensure_future(self._recover(self._boots))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _recover(self, boot: int) -> None:
        try:
            async with self._recovering:
                self._check(boot)
                for process in self._processes:
                    for piece in [*process.pieces]:
                        if piece.held.run < self.server.run:
                            await self._reclaim(process, piece, boot)
            for process in self._processes:
                process.woken.set()
        except Rebooted:
            pass

    async def _reclaim(self, process: Process, piece: Piece, boot: int) -> None:
        held = piece.held
        lock = self._wire(piece.owner, int(held.file), held.start, held.end)
        arguments = NLM4.lockargs(b"r", False, held.is_exclusive, lock, True, self._state)
        answer, run = await self._ask(exchange_of(NLM4, "LOCK"), arguments, boot)
        self.counts["reclaimed" if answer.stat == GRANTED else "reclaims refused"] += 1
        is_granted = answer.stat == GRANTED
        self.history.reclaims.append(
            Reclaim(held.owner, held.file, held.start, held.end, held.run, run, time.monotonic(), is_granted)
        )
        if is_granted:
            held.run = run
        else:  # lost when the server died: whether that was right is for the judge
            held.until = held.freed = self.history.runs[held.run].killed
            process.pieces.remove(piece)

    async def probe(self, file: int, start: int, end: int) -> None:
        """Ask whether something is free, for an owner that has nothing."""
        lock = self._wire(LockOwner(0, b"probe"), file, start, end)
        sent = time.monotonic()
        try:
            answer, _ = await self._ask(exchange_of(NLM4, "TEST"), NLM4.testargs(b"t", True, lock), self._boots)
        except Rebooted:
            return
        is_free = answer.test_stat.discriminant == GRANTED
        self.history.probes.append(Probe(str(file), start, end, True, sent, time.monotonic(), is_free))

    # Calls.

    def _wire(self, owner: LockOwner, file: int, start: int, end: int) -> nlm4_lock:
        where = Range(handle=self.server.handles[file], offset=start, length=0 if end == 2**64 else end - start)
        return nlm4_lock(self.host.name, where.handle, owner.oh, owner.svid, where.offset, where.length)

    async def _ask(self, exchange: Exchange, arguments: Any, boot: int) -> tuple[Any, int]:
        """As a hard mount does: until there is an answer.  The answer, and the run that gave it."""
        while True:
            run, port = self.server.run, self.server.port
            try:
                answer = await outbound.call(
                    exchange,
                    arguments,
                    address="127.0.0.1",
                    port=port,
                    transport="udp" if self.random.random() < 0.2 else "tcp",
                    timeout_seconds=CALL_SECONDS,
                    local_address=self.host.address,
                    credential=CREDENTIAL,
                )
            except CallFailed:
                await asyncio.sleep(RETRY_SECONDS)
                self._check(boot)
            else:
                self._check(boot)
                return answer, run

    def _check(self, boot: int) -> None:
        if boot != self._boots:
            raise Rebooted
