"""What the control plane shows and acts upon: the services, given by the composition.  No protocol is known here."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from dittofs.clients.registry import ClientRegistry
from dittofs.config import Settings
from dittofs.control.audit import Audit
from dittofs.control.paths import PathNames
from dittofs.control.watching import LockWatch
from dittofs.locks.service import LockService
from dittofs.metrics.families import Metrics
from dittofs.model.errors import FileError
from dittofs.model.ids import ClientId
from dittofs.shares.registry import ShareRegistry


class Hold(Protocol):
    """What an answer has to wait for."""

    def when_settled(self, settled: Callable[[FileError | None], None], /) -> None: ...


@dataclass(frozen=True, slots=True)
class Traffic:
    """What was done since the start."""

    requests: int
    bytes_read: int
    bytes_written: int
    connections: int
    loop_lag_seconds: float


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """One store, and what is wrong with it if something is."""

    name: str
    kind: str
    keeps: str
    is_ready: bool
    detail: str
    reads: int = 0
    round_trips: int = 0
    flushes: int = 0
    total_bytes: int | None = None
    available_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """What a new configuration changed."""

    added: list[str]
    changed: list[str]
    removed: list[str]
    ignored: list[str]
    """Settings that only a restart takes up."""


class CannotReload(Exception):
    """The new configuration cannot be used; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """One running server, as its operator sees it."""

    settings: Callable[[], Settings]
    shares: ShareRegistry
    locks: LockService
    clients: ClientRegistry
    adapters: tuple[str, ...]
    """Whose clients the registry has."""
    names: PathNames
    watch: LockWatch
    audit: Audit
    metrics: Metrics
    traffic: Callable[[], Traffic]
    stores: Callable[[], list[StoreHealth]]
    connected: Callable[[], Mapping[str, int]]
    """Address of a client to its open connections."""
    mounts: Callable[[], list[tuple[str, str]]]
    """Who said that he mounted what."""
    callback_failure: Callable[[ClientId], str | None]
    forget_client: Callable[[ClientId], Awaitable[None]]
    reload: Callable[[], Awaitable[Reloaded]]
    answer_present: Callable[[], Awaitable[bool]]
    """Wait for the calls under way; False if that takes too long."""
    started_at: float
    started_after: str
    """"first start", "clean stop" or "crash" [KEEP-3]."""
    endpoints: Callable[[], dict[str, str]]


async def durable(hold: Hold | None) -> None:
    """Wait until a change is kept.  Raises FileError if it is lost."""
    if hold is None:
        return
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settled(error: FileError | None) -> None:
        if not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

    hold.when_settled(settled)
    await future
