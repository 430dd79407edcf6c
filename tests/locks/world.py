"""A lock service over a store that fails when told to, and that can lose its power."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from dittofs.locks.keeping import LOCKS, Hold
from dittofs.locks.limits import LockLimits
from dittofs.locks.outcomes import Granted, Offer, Refuse, Settled
from dittofs.locks.service import LockService
from dittofs.locks.spans import Span
from dittofs.locks.values import Acquire, Lock, Mode, Origin, Owner
from dittofs.model.errors import FileError
from dittofs.model.ids import ClientId, FileId, FileRef, ShareId, ShareName
from dittofs.stores.api import Change, MetadataStore, StoreError, check_keys
from dittofs.stores.transactions import LocalTransactions

EXPORT = ShareName("/export")
EXPORT_ID = ShareId(b"export--")
OTHER = ShareName("/other")
OTHER_ID = ShareId(b"other---")
FILE = FileRef(EXPORT, FileId(7))
SHARED, EXCLUSIVE = Mode.SHARED, Mode.EXCLUSIVE
ALL = Span(0, 2**64)


class FaultStore(MetadataStore):
    """Keeps what was flushed over `close` and `open`.  Each `fails_…` makes one method fail as long as it is set."""

    is_volatile: ClassVar[bool] = False

    def __init__(self) -> None:
        self.durable: dict[bytes, bytes] = {}
        self.fails_apply = self.fails_flush = self.fails_reading = False
        self.flushes = 0
        self.flush_seconds = 0.0
        """How long the disk takes."""
        self._applied: dict[bytes, bytes] = {}

    def open(self) -> None:
        self._applied = self.durable

    def close(self) -> None:
        pass

    def get(self, key: bytes) -> bytes | None:
        self._check(self.fails_reading)
        return self._applied.get(key)

    def scan(self, start: bytes, end: bytes, limit: int) -> Sequence[tuple[bytes, bytes]]:
        self._check(self.fails_reading)
        return sorted(item for item in self._applied.items() if start <= item[0] < end)[:limit]

    def apply(self, changes: Sequence[Change]) -> None:
        check_keys(changes)
        self._check(self.fails_apply)
        applied = dict(self._applied)
        for key, value in changes:
            if value is None:
                applied.pop(key, None)
            else:
                applied[key] = value
        self._applied = applied  # whole: `flush` runs in another thread

    def flush(self) -> None:
        self.flushes += 1
        time.sleep(self.flush_seconds)
        self._check(self.fails_flush)
        self.durable = self._applied

    def revert(self) -> None:
        self._applied = self.durable

    @staticmethod
    def _check(fails: bool) -> None:
        if fails:
            raise StoreError("the disk is on fire")


def recorded(store: FaultStore) -> list[Lock]:
    """The locks that are durable, by their ids."""
    found = [LOCKS.decode(value) for key, value in store.durable.items() if key.startswith(LOCKS.prefix)]
    return sorted(found, key=lambda lock: lock.id)


class Heard:
    """A listener that writes down what it is told."""

    def __init__(self) -> None:
        self.offers: list[Offer] = []
        self.refusals: list[Refuse] = []
        self.settlements: list[Settled] = []

    def offered(self, offer: Offer) -> None:
        self.offers.append(offer)

    def refused(self, refusal: Refuse) -> None:
        self.refusals.append(refusal)

    def settled(self, settled: Settled) -> None:
        self.settlements.append(settled)


class Running:
    """One run of a server's locks."""

    def __init__(self, service: LockService, transactions: LocalTransactions):
        self.service = service
        self.transactions = transactions
        self.heard = Heard()
        service.listeners.append(self.heard)


@asynccontextmanager
async def running(
    store: MetadataStore,
    *,
    epoch: int = 1,
    node: str = "a",
    limits: LockLimits | None = None,
    is_clean: bool = False,
    monotonic: Callable[[], float] | None = None,
) -> AsyncIterator[Running]:
    """A run of one share; it ends in a crash unless `is_clean`."""
    transactions = LocalTransactions(store)
    transactions.open()
    transactions.start(asyncio.get_running_loop())
    clock = {} if monotonic is None else {"monotonic": monotonic}
    service = LockService(limits or LockLimits(), Origin(node, epoch), **clock)
    try:
        await service.add_share(EXPORT, EXPORT_ID, transactions)
        yield Running(service, transactions)
        if is_clean:
            await service.close()
    finally:
        await transactions.close()


def owner(name: str, client: str | None = None) -> Owner:
    return Owner(f"nlm:{name}:1:00", ClientId(client or f"client of {name}"), svid=1, oh=name.encode())


def wanted(
    name: str,
    start: int = 0,
    end: int = 100,
    *,
    mode: Mode = EXCLUSIVE,
    file: FileRef = FILE,
    wait: bool = False,
    reclaim: bool = False,
) -> Acquire:
    return Acquire(file, owner(name), Span(start, end), mode, wait=wait, reclaim=reclaim)


async def kept(hold: Hold | None) -> FileError | None:
    """Wait for the batch; the error if it is lost."""
    if hold is None:
        return None
    future: asyncio.Future[FileError | None] = asyncio.get_running_loop().create_future()
    hold.when_settled(future.set_result)
    return await future


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 20))


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until something is so; whoever waits for ever is stopped by the limit of `run`."""
    while not condition():
        await asyncio.sleep(0.001)


async def locked(store: FaultStore, *requests: Acquire, epoch: int = 1) -> None:
    """A run in which these are granted, and that ends in a crash."""
    async with running(store, epoch=epoch) as here:
        for request in requests:
            outcome, hold = await here.service.acquire(request)
            assert isinstance(outcome, Granted)
            assert await kept(hold) is None
