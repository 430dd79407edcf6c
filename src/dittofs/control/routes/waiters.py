"""Who waits for what: the queue, the graph, and the deadlocks that were broken."""

from dittofs.control.describing import END, file_text, files_of, owner_view, range_text, waiter_view, who_text
from dittofs.control.endpoints import ENDPOINTS, Asked, Refused
from dittofs.control.listing import Turns
from dittofs.control.plane import Plane
from dittofs.control.views import (
    CycleLink,
    Deadlocks,
    DeadlockView,
    EdgeView,
    Explanation,
    Graph,
    Limit,
    OwnerView,
    Query,
    Text,
    WaiterPage,
    WaiterView,
)
from dittofs.control.watching import SeenDeadlock
from dittofs.locks.inspecting import WaitView
from dittofs.model.ids import ClientId, Ticket


class WaiterFilter(Query):
    share: Text | None = None
    client: Text | None = None
    limit: Limit = 100


class GraphQuery(Query):
    limit: Limit = 500


@ENDPOINTS.get("/waiters", answer=WaiterPage, query=WaiterFilter)
async def list_waiters(plane: Plane, asked: Asked) -> WaiterPage:
    """Requests that wait, the oldest first, each with what it waits for and why."""
    query: WaiterFilter = asked.query
    inspect = plane.locks.inspect
    if query.client is not None:
        tickets = [waiter.ticket for waiter in inspect.waiters_of_client(ClientId(query.client))]
    else:
        tickets = inspect.tickets()
    found: list[WaitView] = []
    turns = Turns()
    for ticket in tickets:
        await turns.pause()
        waiter = inspect.ticket(ticket)
        if waiter is None or (query.share is not None and waiter.request.file.share != query.share):
            continue
        found.append(waiter)
        if len(found) == query.limit:
            break
    return WaiterPage(waiters=await _views(plane, found), total=len(tickets))


@ENDPOINTS.get("/waiters/{ticket}", answer=WaiterView, statuses=(404,))
async def show_waiter(plane: Plane, asked: Asked) -> WaiterView:
    """One request that waits."""
    return (await _views(plane, [find_waiter(plane, asked.path["ticket"])]))[0]


@ENDPOINTS.get("/waiters/{ticket}/why", answer=Explanation, statuses=(404,))
async def why_waiter(plane: Plane, asked: Asked) -> Explanation:
    """Why it is blocked, in a sentence."""
    return Explanation(why=(await show_waiter(plane, asked)).why)


@ENDPOINTS.get("/graph", answer=Graph, query=GraphQuery)
async def graph(plane: Plane, asked: Asked) -> Graph:
    """The wait-for graph: who waits for whom."""
    owners: dict[tuple[str, str], OwnerView] = {}
    edges = []
    turns = Turns()
    for edge in plane.locks.inspect.edges(asked.query.limit):
        await turns.pause()
        waiter, holder = owner_view(plane, edge.owner), owner_view(plane, edge.waits_for)
        for owner in (waiter, holder):
            owners[owner.client, owner.id] = owner
        lock = None if edge.lock is None else edge.lock.id
        edges.append(EdgeView(ticket=edge.ticket, waiter=waiter, holder=holder, lock=lock))
    return Graph(owners=list(owners.values()), edges=edges)


@ENDPOINTS.get("/deadlocks", answer=Deadlocks)
async def deadlocks(plane: Plane, asked: Asked) -> Deadlocks:
    """Deadlocks that were broken lately, the newest first."""
    return Deadlocks(deadlocks=[await _deadlock(plane, seen) for seen in reversed(plane.watch.deadlocks)])


async def _views(plane: Plane, waiters: list[WaitView]) -> list[WaiterView]:
    paths = await plane.names.of({file for waiter in waiters for file in files_of(waiter)})
    return [waiter_view(plane, waiter, paths) for waiter in waiters]


async def _deadlock(plane: Plane, seen: SeenDeadlock) -> DeadlockView:
    paths = await plane.names.of({wait.file for wait in seen.cycle})
    links, sentences = [], []
    for wait in seen.cycle:
        end = None if wait.span.end >= END else wait.span.end
        links.append(
            CycleLink(
                owner=owner_view(plane, wait.owner),
                share=wait.file.share,
                file=wait.file.file,
                path=paths.get(wait.file),
                start=wait.span.start,
                end=end,
                type=wait.mode.value,
            )
        )
        what = f"{range_text(wait.span.start, wait.span.end)} of {file_text(wait.file, paths)}"
        holder = who_text(plane, wait.blocker.owner)
        sentences.append(f"{who_text(plane, wait.owner)} wanted {what}, held by {holder}")
    return DeadlockView(at=seen.at, cycle=links, why="; ".join(sentences) + ".")


def find_waiter(plane: Plane, text: str) -> WaitView:
    """Raises Refused with 404."""
    if text.isdecimal() and text.isascii() and len(text) < 20:
        waiter = plane.locks.inspect.ticket(Ticket(int(text)))
        if waiter is not None:
            return waiter
    raise Refused(404, f"no request waits with ticket {text[:40]}: it was granted, refused or cancelled")
