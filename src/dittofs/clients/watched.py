"""A host whose locks are watched over: what its calls tell of it, and what is kept while it has something."""

from dataclasses import dataclass

import msgspec

from dittofs.clients.host_ids import plain_address
from dittofs.clients.records import ClientRecord
from dittofs.clients.registry import Client
from dittofs.clients.states import is_newer
from dittofs.locks.keeping import Hold, Transactions
from dittofs.model.ids import ClientId


@dataclass(slots=True, kw_only=True)
class Caller:
    """Who asks for a lock, as the call tells."""

    name: bytes
    address: str
    local_address: str
    version: int
    transport: str
    state: int = 0
    """Its NSM state; 0 if it did not say."""


class Watched:
    """A recorded client."""

    __slots__ = ("id", "is_notified", "pending", "rebooted_to", "record", "stores", "touched_at")

    def __init__(self, record: ClientRecord, now: float):
        self.id = ClientId(record.id)
        self.record = record
        self.stores: dict[Transactions, None] = {}
        """Where it is recorded."""
        self.pending: dict[Transactions, Hold] = {}
        """Batches with its record that are not durable yet."""
        self.is_notified = True
        """False until it has heard of the restart that it was recorded before."""
        self.rebooted_to: int | None = None
        """Its state after a reboot whose clean-up waits for the TTL."""
        self.touched_at = now


class Standing:
    """A client that is known, recorded and as it says it is: its next lock asks for nothing of all that, as long as
    this is good."""

    __slots__ = ("_client", "_watched", "is_good")

    def __init__(self, watched: Watched, client: Client):
        self._watched = watched
        self._client = client
        self.is_good = True

    def heard(self, now: float) -> None:
        self._watched.touched_at = self._client.last_seen = now


def first_label(name: bytes) -> bytes:
    """What lockd and statd agree on: one sends the short name, the other often the full one."""
    return name.split(b".", 1)[0].lower()


def record_of(client: ClientId, caller: Caller, now: float, node: str) -> ClientRecord:
    return ClientRecord(
        id=client,
        name=caller.name,
        address=plain_address(caller.address),
        local_address=caller.local_address,
        version=caller.version,
        transport=caller.transport,
        recorded_at=now,
        state=caller.state,
        node=node,
    )


def updated(record: ClientRecord, caller: Caller) -> ClientRecord:
    """The record with what this call tells; the same one if that is nothing new."""
    state = (
        caller.state if caller.state and (not record.state or is_newer(caller.state, record.state)) else record.state
    )
    if (record.local_address, record.version, record.transport, record.state) == (
        caller.local_address,
        caller.version,
        caller.transport,
        state,
    ):
        return record
    return msgspec.structs.replace(
        record,
        local_address=caller.local_address,
        version=caller.version,
        transport=caller.transport,
        state=state,
    )
