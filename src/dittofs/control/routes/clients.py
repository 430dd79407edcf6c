"""Clients: who is there, with what, and forgetting one that will not come back."""

from dittofs.clients.registry import Client
from dittofs.control.describing import lock_view
from dittofs.control.endpoints import ENDPOINTS, Asked, Refused
from dittofs.control.plane import Plane
from dittofs.control.routes.locks import WARNING, WithReason
from dittofs.control.views import Clients, ClientView, ReleasedLocks
from dittofs.model.ids import ClientId

PLAIN = "nfs"
"""The adapter of clients that take no locks: known by their mounts and connections only."""
SHOWN_MAX = 1000


@ENDPOINTS.get("/clients", answer=Clients)
async def list_clients(plane: Plane, asked: Asked) -> Clients:
    """Everybody who has locks, mounts or connections."""
    return Clients(clients=_all(plane))


@ENDPOINTS.get("/clients/{adapter}/{id:path}", answer=ClientView, statuses=(404,))
async def show_client(plane: Plane, asked: Asked) -> ClientView:
    """One client."""
    adapter, id_ = asked.path["adapter"], asked.path["id"]
    found = next((client for client in _all(plane) if (client.adapter, client.id) == (adapter, id_)), None)
    if found is None:
        raise Refused(404, f"no client {id_[:200]} is known to {adapter[:40]}")
    return found


@ENDPOINTS.post("/forget/{adapter}/{id:path}", answer=ReleasedLocks, body=WithReason, statuses=(404,))
async def forget_client(plane: Plane, asked: Asked) -> ReleasedLocks:
    """Forget a client and release everything it holds or waits for.  It is not told."""
    adapter, id_ = asked.path["adapter"], ClientId(asked.path["id"])
    client = plane.clients.find(adapter, id_) if adapter in plane.adapters else None
    locks = plane.locks.inspect.locks_of_client(id_)
    if client is None and not locks:
        raise Refused(404, f"no client {id_[:200]} is known to {adapter[:40]}")
    shown = locks[:SHOWN_MAX]
    paths = await plane.names.of({lock.file for lock in shown})
    views = [lock_view(plane, lock, paths) for lock in shown]
    async with plane.audit.acting(
        actor=asked.actor, action="forget client", target=f"{adapter} {id_}", reason=asked.body.reason
    ):
        await plane.forget_client(id_)
    return ReleasedLocks(released=views, warning=WARNING)


def _all(plane: Plane) -> list[ClientView]:
    mounts: dict[str, list[str]] = {}
    for address, path in plane.mounts():
        mounts.setdefault(address, []).append(path)
    connected = plane.connected()
    views = [_view(plane, client, mounts, connected.get(client.address, 0)) for client in plane.clients]
    known = {view.address for view in views}
    plain = sorted({*mounts, *connected} - known)
    return [*views, *(_plain_view(address, mounts, connected.get(address, 0)) for address in plain)]


def _plain_view(address: str, mounts: dict[str, list[str]], connections: int) -> ClientView:
    return ClientView(
        id=address,
        adapter=PLAIN,
        name=address,
        address=address,
        local_address=None,
        first_seen=None,
        last_seen=None,
        ttl_seconds=None,
        gone_since=None,
        locks=0,
        waiting=0,
        connections=connections,
        mounts=mounts.get(address, []),
        trouble=None,
    )


def _view(plane: Plane, client: Client, mounts: dict[str, list[str]], connections: int) -> ClientView:
    inspect = plane.locks.inspect
    return ClientView(
        id=client.id,
        adapter=client.adapter,
        name=client.name,
        address=client.address,
        local_address=client.local_address,
        first_seen=client.first_seen,
        last_seen=client.last_seen,
        ttl_seconds=plane.clients.ttl_seconds(client),
        gone_since=client.gone_at,
        locks=inspect.held_count(client.id),
        waiting=len(inspect.waiters_of_client(client.id)),
        connections=connections,
        mounts=mounts.get(client.address, []),
        trouble=plane.callback_failure(client.id),
    )
