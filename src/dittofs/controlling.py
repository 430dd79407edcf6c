"""Puts the control plane together: metrics, REST and page, each on its own port.  Part of the composition.

Files are served whether or not this can be: a port that somebody else has is told in the log and on standard
output, loudly, and nothing else stops.
"""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson
import structlog
from starlette.types import ASGIApp

from dittofs.clients.registry import ClientRegistry
from dittofs.config import Settings
from dittofs.control.access import Gate, Tokens
from dittofs.control.app import control_app
from dittofs.control.audit import Audit
from dittofs.control.events import EventStreams
from dittofs.control.listening import CannotServeHttp, HttpListener
from dittofs.control.paths import PathNames
from dittofs.control.plane import Plane, Reloaded, StoreHealth, Traffic
from dittofs.control.scraping import metrics_app
from dittofs.control.watching import LockWatch
from dittofs.locks.service import LockService
from dittofs.metrics.families import Metrics
from dittofs.model.ids import ClientId
from dittofs.observing import (
    Sockets,
    observe_callbacks,
    observe_calls,
    observe_content,
    observe_process,
    observe_stores,
)
from dittofs.protocols.mount.mounts import MountList
from dittofs.protocols.nfs3.serving import Nfs3Services
from dittofs.protocols.nlm.granting import Granting
from dittofs.shares.registry import ShareRegistry
from dittofs.stores.api import ContentStore
from dittofs.stores.making import Driver

log = structlog.get_logger()

ENDPOINTS_NAME = "endpoints.json"
"""In the data directory while the server runs: where `dittofs lock ls` and its kin find it."""
AUDIT_NAME = "audit.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What is shown, and what is acted upon."""

    settings: Callable[[], Settings]
    port: int
    sockets: Mapping[str, Sockets]
    stores: Mapping[str, Driver]
    contents: Mapping[str, ContentStore]
    nfs: Nfs3Services
    mounts: MountList
    shares: ShareRegistry
    locks: LockService
    clients: ClientRegistry
    granting: Granting
    forget_client: Callable[[ClientId], Awaitable[None]]
    reload: Callable[[], Awaitable[Reloaded]]
    answer_present: Callable[[], Awaitable[bool]]
    started_after: str


class ControlPlane:
    """Metrics and REST of one running server."""

    def __init__(self, parts: Parts):
        self._parts = parts
        self.metrics = Metrics()
        self.missing: list[str] = []
        """What could not be served, and why."""
        self._undo = contextlib.AsyncExitStack()
        observe_calls(self.metrics, parts.sockets)
        observe_stores(self.metrics, lambda: {name: one.counts for name, one in parts.stores.items()})
        observe_content(self.metrics, lambda: parts.nfs.bytes_read, lambda: parts.nfs.bytes_written)
        observe_callbacks(self.metrics, parts.granting)
        self._lag = observe_process(self.metrics)
        self._watch = LockWatch(self.metrics, parts.locks.inspect)
        parts.locks.watchers.append(self._watch)
        self._found: dict[str, str] = {}
        self.plane = self._plane()

    async def start(self) -> None:
        self._lag.start()
        self._undo.callback(self._lag.stop)
        settings = self._parts.settings()
        if settings.api.listen:
            gate = Gate(Tokens.open(settings.server.data))
            streams = EventStreams()
            app = control_app(self.plane, gate, streams)
            self._found["api"] = await self._listen("api", settings.api.listen, app)
            self._undo.callback(streams.close)
            self._undo.callback(self._end_backups)
        self._found["metrics"] = await self._listen("metrics", settings.metrics.listen, metrics_app(self.metrics))
        self._tell()

    def _plane(self) -> Plane:
        parts = self._parts
        audit = Audit(parts.settings().server.data / AUDIT_NAME)
        audit.open()
        return Plane(
            settings=parts.settings,
            shares=parts.shares,
            locks=parts.locks,
            clients=parts.clients,
            adapters=("nlm",),
            names=PathNames(parts.shares),
            watch=self._watch,
            audit=audit,
            metrics=self.metrics,
            traffic=self._traffic,
            stores=self._stores,
            connected=self._connected,
            mounts=lambda: [(one.address, one.path.decode("utf-8", "backslashreplace")) for one in parts.mounts],
            callback_failure=self._callback_failure,
            forget_client=parts.forget_client,
            reload=parts.reload,
            answer_present=parts.answer_present,
            started_at=time.time(),
            started_after=parts.started_after,
            endpoints=lambda: dict(self._found),
        )

    def _callback_failure(self, client: ClientId) -> str | None:
        failure = self._parts.granting.last_failure(client)
        return None if failure is None else failure.text

    def _traffic(self) -> Traffic:
        parts = self._parts
        return Traffic(
            requests=sum(counts.requests for one in parts.sockets.values() for counts in one.dispatcher.counts),
            bytes_read=parts.nfs.bytes_read,
            bytes_written=parts.nfs.bytes_written,
            connections=sum(one.connections for one in parts.sockets.values()),
            loop_lag_seconds=self._lag.latest,
        )

    def _connected(self) -> Mapping[str, int]:
        found: Counter[str] = Counter()
        for one in self._parts.sockets.values():
            found.update(one.by_address)
        return found

    def _stores(self) -> list[StoreHealth]:
        parts, settings = self._parts, self._parts.settings()
        found = []
        for name, transactions in parts.stores.items():
            counts = transactions.counts
            trouble = transactions.trouble
            found.append(
                StoreHealth(
                    name=name,
                    kind=settings.stores[name].kind,
                    keeps="metadata",
                    is_ready=not trouble,
                    detail=trouble or "it answers",
                    reads=counts.reads,
                    round_trips=counts.loads,
                    flushes=counts.flush_seconds.count,
                )
            )
        for name, content in parts.contents.items():
            usage = content.usage()
            found.append(
                StoreHealth(
                    name=name,
                    kind=settings.stores[name].kind,
                    keeps="content",
                    is_ready=usage.available > 0,
                    detail="it answers" if usage.available > 0 else "there is no room left",
                    total_bytes=usage.total,
                    available_bytes=usage.available,
                )
            )
        return found

    def _end_backups(self) -> None:
        """A server that stops does not wait for whoever takes one."""
        for share in self._parts.shares:
            if share.volume.snapshot is not None:
                share.volume.snapshot.lose("the server is stopping")

    async def stop(self) -> None:
        await self._undo.aclose()

    async def _listen(self, name: str, listen: str, app: ASGIApp) -> str:
        """The address at which it is served; empty if it is not."""
        if not listen:
            return ""
        api = self._parts.settings().api
        data = self._parts.settings().server.data
        certificate = data / api.tls_certificate if name == "api" and api.tls_certificate else None
        private = data / api.tls_private if certificate and api.tls_private else None
        listener = HttpListener(app, listen, certificate=certificate, private=private)
        try:
            await listener.start()
        except CannotServeHttp as error:
            self.missing.append(f"{name} is not served: {error}")
            log.error("files are served without it", part=name, reason=str(error))
            return ""
        self._undo.push_async_callback(listener.stop)
        log.info("listening", part=name, url=listener.url)
        return listener.url

    def _tell(self) -> None:
        path = self._parts.settings().server.data / ENDPOINTS_NAME
        write_privately(path, orjson.dumps({"pid": os.getpid(), "nfs": self._nfs_address(), **self._found}))
        self._undo.callback(path.unlink, missing_ok=True)

    def _nfs_address(self) -> str:
        """Where a program of this host reaches the file service."""
        listen = self._parts.settings().server.listen
        address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen[0], listen[0])
        return f"[{address}]:{self._parts.port}" if ":" in address else f"{address}:{self._parts.port}"


def write_privately(path: Path, data: bytes) -> None:
    """Put a file in its place at once, readable for its owner only."""
    fresh = path.with_name(path.name + ".new")
    with contextlib.suppress(FileNotFoundError):
        fresh.unlink()
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)
