"""What the REST interface answers with: these declarations are the schema of its answers."""

from typing import Annotated

import msgspec

from dittofs.control.audit import Entry

Limit = Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many at most.")]
Text = Annotated[str, msgspec.Meta(max_length=4096)]
Reason = Annotated[
    str, msgspec.Meta(min_length=3, max_length=500, pattern=r"\S", description="Why; kept in the audit log.")
]


class View(msgspec.Struct, kw_only=True, gc=False):
    """A part of an answer."""


class Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a question."""


class Body(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a change is told."""


class OwnerView(View):
    """Who holds or wants a lock."""

    id: str
    client: str
    name: str
    address: str
    process: int
    """The process on the client, as it says."""


class LockView(View):
    id: int
    share: str
    file: int
    path: str | None
    """None if no name of the file was found."""
    owner: OwnerView
    start: int
    end: int | None
    """The first byte behind it; None: to the end of the file."""
    type: str
    state: str
    """held, offered (its client has not answered yet) or pending (it must be reclaimed in grace)."""
    acquired_at: float
    was_blocking: bool
    is_reclaim: bool
    access: str | None = None
    deny: str | None = None


class WaiterView(View):
    ticket: int
    share: str
    file: int
    path: str | None
    owner: OwnerView
    start: int
    end: int | None
    type: str
    waiting_since: float
    state: str
    """waiting, offered, or passed_over (its client does not answer)."""
    blockers: list[LockView]
    behind: list[int]
    """Tickets of older requests that go first."""
    why: str


class LockPage(View):
    locks: list[LockView]
    total: int
    """All locks of the server, whatever was asked for."""
    next: str | None
    """The cursor of the page that follows."""


class WaiterPage(View):
    waiters: list[WaiterView]
    total: int


class FileLocks(View):
    """What there is to know about the locks of one file."""

    share: str
    file: int
    path: str | None
    locks: list[LockView]
    """The first of them, in the order of their starts."""
    total: int
    waiters: list[WaiterView]


class Explanation(View):
    why: str


class EdgeView(View):
    """`waiter` waits for `holder`, by a lock of his or, if `lock` is None, by an older request of his."""

    ticket: int
    waiter: OwnerView
    holder: OwnerView
    lock: int | None


class Graph(View):
    owners: list[OwnerView]
    edges: list[EdgeView]


class CycleLink(View):
    owner: OwnerView
    share: str
    file: int
    path: str | None
    start: int
    end: int | None
    type: str


class DeadlockView(View):
    at: float
    cycle: list[CycleLink]
    why: str


class Deadlocks(View):
    deadlocks: list[DeadlockView]


class ReleasedLocks(View):
    released: list[LockView]
    warning: str


class RosterView(View):
    client: str
    name: str
    address: str
    locks: int
    bytes: int


class GraceShare(View):
    share: str
    ends_at: float
    remaining_seconds: float
    roster: list[RosterView]


class Grace(View):
    is_active: bool
    shares: list[GraceShare]


class ClientView(View):
    id: str
    adapter: str
    name: str
    address: str
    local_address: str | None
    first_seen: float | None
    last_seen: float | None
    ttl_seconds: float | None
    gone_since: float | None
    locks: int
    waiting: int
    connections: int
    mounts: list[str]
    trouble: str | None
    """Why it could not be called back, if it could not."""


class Clients(View):
    clients: list[ClientView]


class ShareView(View):
    name: str
    metadata: str
    content: str
    durability: str
    read_only: bool
    squash: str
    clients: list[str]
    security: list[str]
    mandatory_locks: bool
    in_grace: bool
    shared: int
    exclusive: int
    reservations: int
    waiting: int
    total_bytes: int
    available_bytes: int


class Shares(View):
    shares: list[ShareView]


class UsageView(View):
    share: str
    files: int
    directories: int
    others: int
    bytes: int
    used_bytes: int
    is_complete: bool
    """False if it was cut off: the share has more files than one question may look at."""


class StoreView(View):
    name: str
    kind: str
    keeps: str
    is_ready: bool
    detail: str
    reads: int
    round_trips: int
    flushes: int
    total_bytes: int | None
    available_bytes: int | None


class Stores(View):
    stores: list[StoreView]


class Health(View):
    is_ready: bool
    stores: list[StoreView]
    problems: list[str]


class Live(View):
    is_live: bool


class Status(View):
    version: str
    node: str
    epoch: int
    started_at: float
    now: float
    started_after: str
    """first start, clean stop or crash: what this run came after."""
    listen: list[str]
    endpoints: dict[str, str]
    shares: int
    clients: int
    locks: int
    waiting: int
    grace_seconds: float
    """Until the last grace period ends; 0 if there is none."""
    deadlocks: int
    connections: int
    requests: int
    bytes_read: int
    bytes_written: int
    loop_lag_seconds: float
    changes: int
    """Grows with every change of the locks."""


class AuditPage(View):
    entries: list[Entry]


class ReloadView(View):
    added: list[str]
    changed: list[str]
    removed: list[str]
    ignored: list[str]


class SessionView(View):
    right: str
