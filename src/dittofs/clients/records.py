"""What is kept of a client that holds or awaits a lock: enough to tell it that the server has restarted [NSM-2]."""

import hashlib
from collections.abc import Sequence

import msgspec

from dittofs.stores.tables import NamedTable, View

RECORDS_AT_ONCE = 2**31


class ClientRecord(msgspec.Struct, frozen=True, array_like=True):
    """One NLM host.  New fields go to the end, with a default."""

    id: str
    name: bytes
    """As it calls itself, byte for byte."""
    address: str
    local_address: str
    """The address of ours that it knows: it hears of a restart from there."""
    version: int
    """Of NLM, and the transport that it used: how it can be called back."""
    transport: str
    recorded_at: float
    state: int = 0
    """Its NSM state as a LOCK or an SM_NOTIFY told it last; 0: unknown."""
    notified: int = 0
    """The state of its last SM_NOTIFY, so that a repetition of it does nothing."""
    node: str = ""
    """The server that it locks through: another one on the same store has nothing to tell it."""


CLIENTS: NamedTable[ClientRecord] = NamedTable("client", b"h", ClientRecord)


def key_of(record: ClientRecord) -> bytes:
    """Of fixed length: names may be longer than a key, and hold any byte [KEEP-2]."""
    return hashlib.sha256(f"{record.node}\0{record.id}".encode()).digest()


def load_own(view: View, node: str, is_shared: bool) -> list[ClientRecord]:
    """The records of this node.  In a store that one server uses at a time, whoever else recorded a client was its
    predecessor: such records are taken over."""
    found = []
    for key, record in view.scan(CLIENTS, b"", b"\xff" * 33, RECORDS_AT_ONCE):
        if record.node == node:
            found.append(record)
        elif not is_shared:
            view.delete(CLIENTS, key)
            found.append(msgspec.structs.replace(record, node=node))
            save(view, found[-1])
    return found


def save(view: View, record: ClientRecord) -> None:
    view.put(CLIENTS, key_of(record), record)


def forget(view: View, records: Sequence[ClientRecord]) -> None:
    for record in records:
        view.delete(CLIENTS, key_of(record))
