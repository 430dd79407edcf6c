"""Health, status, reload: the server as a whole."""

import time

from dittofs import __version__
from dittofs.control.endpoints import ENDPOINTS, Asked, Nothing, Refused, Right
from dittofs.control.plane import CannotReload, Plane
from dittofs.control.views import Health, Live, ReloadView, Status, Stores, StoreView


@ENDPOINTS.get("/live", answer=Live, right=Right.NONE)
async def live(plane: Plane, asked: Asked) -> Live:
    """Whether the process answers at all.  The only endpoint without a token."""
    return Live(is_live=True)


@ENDPOINTS.get("/ready", answer=Health, statuses=(503,))
async def ready(plane: Plane, asked: Asked) -> Health:
    """Whether files can be served: 503 if a store cannot go on."""
    found = _health(plane)
    if not found.is_ready:
        raise Refused(503, "; ".join(found.problems))
    return found


@ENDPOINTS.get("/health", answer=Health)
async def health(plane: Plane, asked: Asked) -> Health:
    """Every store, and what is wrong with it if something is."""
    return _health(plane)


@ENDPOINTS.get("/stores", answer=Stores)
async def stores(plane: Plane, asked: Asked) -> Stores:
    """Where metadata and content are kept, and how the stores are doing."""
    return Stores(stores=_stores(plane))


@ENDPOINTS.get("/status", answer=Status)
async def status(plane: Plane, asked: Asked) -> Status:
    """The server at a glance."""
    return status_of(plane)


@ENDPOINTS.post("/reload", answer=ReloadView, body=Nothing, statuses=(409,))
async def reload(plane: Plane, asked: Asked) -> ReloadView:
    """Read the configuration again and take up added, changed and removed shares; others are not disturbed."""
    async with plane.audit.acting(actor=asked.actor, action="reload", target="configuration", reason="asked for"):
        try:
            done = await plane.reload()
        except CannotReload as error:
            raise Refused(409, str(error)) from None
    return ReloadView(added=done.added, changed=done.changed, removed=done.removed, ignored=done.ignored)


def _stores(plane: Plane) -> list[StoreView]:
    return [
        StoreView(
            name=store.name,
            kind=store.kind,
            keeps=store.keeps,
            is_ready=store.is_ready,
            detail=store.detail,
            reads=store.reads,
            round_trips=store.round_trips,
            flushes=store.flushes,
            total_bytes=store.total_bytes,
            available_bytes=store.available_bytes,
        )
        for store in plane.stores()
    ]


def _health(plane: Plane) -> Health:
    found = _stores(plane)
    problems = [f"stores.{store.name}: {store.detail}" for store in found if not store.is_ready]
    return Health(is_ready=not problems, stores=found, problems=problems)


def status_of(plane: Plane) -> Status:
    inspect, traffic, now = plane.locks.inspect, plane.traffic(), plane.locks.now()
    shares = inspect.shares()
    return Status(
        version=__version__,
        node=plane.locks.origin.node,
        epoch=plane.locks.origin.epoch,
        started_at=plane.started_at,
        now=time.time(),
        started_after=plane.started_after,
        listen=[str(address) for address in plane.settings().server.listen],
        endpoints=plane.endpoints(),
        shares=len(list(plane.shares)),
        clients=len(plane.clients),
        locks=inspect.held_count(),
        waiting=sum(share.waiting for share in shares),
        grace_seconds=max((max(0.0, grace.ends_at - now) for grace in inspect.grace()), default=0.0),
        deadlocks=len(plane.watch.deadlocks),
        connections=traffic.connections,
        requests=traffic.requests,
        bytes_read=traffic.bytes_read,
        bytes_written=traffic.bytes_written,
        loop_lag_seconds=traffic.loop_lag_seconds,
        changes=plane.watch.changes,
    )
