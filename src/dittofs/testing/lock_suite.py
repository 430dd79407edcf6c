"""What every metadata store must do with the records of locks, their clients and the server itself [STORE-2] [KEEP-2].

Part of the suites for stores: nothing of what was recorded may come back changed, and nobody's record may be found
under another's key, whatever names the network brought.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from dittofs.clients.host_ids import host_id
from dittofs.clients.records import CLIENTS, ClientRecord, key_of
from dittofs.locks.keeping import LAST, LOCKS, NODES
from dittofs.locks.records import NodeRecord
from dittofs.locks.values import Access, Lock, Mode, Origin, Owner, Reservation
from dittofs.model.ids import ClientId, FileId, FileRef, LockId, ShareName
from dittofs.stores.api import Change, MetadataStore
from dittofs.stores.tables import Table

SHARES = (b"\0" * 8, b"\0" * 7 + b"\1", b"share-id", b"\xff" * 8)
ALL_BYTES = bytes(range(256)) * 4
NAMES = (b"host", b"host:1", b"host/1", b"host 1", b"ho%20st", b"h\0st", b"", b"h" * 1024, ALL_BYTES, "hôst".encode())
ADDRESSES = ("192.0.2.1", "192.0.2.11", "2001:db8::1", "fe80::1%eth0")
NUMBERS = (1, 2, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)


class Sample(NamedTuple):
    """A record and the key it belongs under."""

    table: Table[Any, Any]
    key: Any
    record: Any

    def change(self) -> Change:
        return self.table.pack(self.key), self.table.encode(self.record)


def lock(number: int = 1, file: int = 1, share: str = "/export", **fields: Any) -> Lock:
    made = Lock(
        id=LockId(number),
        file=FileRef(ShareName(share), FileId(file)),
        owner=Owner("nlm:host:1:00", ClientId("192.0.2.1 host"), 1, b"\0"),
        start=0,
        end=1,
        mode=Mode.EXCLUSIVE,
        acquired_at=1_700_000_000.123456,
        origin=Origin("node", 1),
    )
    return msgspec.structs.replace(made, **fields)


def lock_samples() -> Iterator[Sample]:
    """Locks whose every field is at its extremes, fragments of one range, and neighbours under nearly equal keys."""
    locks = [lock(number, file) for number in NUMBERS for file in NUMBERS]
    spans = [(0, 1), (0, 2**64), (2**63 - 1, 2**63), (2**63, 2**64 - 1), (2**64 - 1, 2**64)]
    locks += [lock(10 + index, start=start, end=end) for index, (start, end) in enumerate(spans)]
    locks += [lock(20, start=0, end=10, mode=Mode.SHARED), lock(21, start=20, end=2**64, mode=Mode.SHARED)]
    for index, access in enumerate((access, deny) for access in Access for deny in Access):
        locks.append(lock(30 + index, end=2**64, mode=Mode.RESERVATION, reservation=Reservation(*access)))
    for index, name in enumerate(NAMES):
        owner = Owner(f"nlm:{name!r}:{2**32 - 1}:ff", host_id(name, ADDRESSES[index % 4]), 2**32 - 1, ALL_BYTES[:index])
        locks.append(lock(60 + index, owner=owner, share=f"/a:b/{name!r}"))
    locks.append(lock(90, state=2**32 - 1, was_blocking=True, is_reclaim=True, is_offered=True, acquired_at=0.0))
    locks.append(lock(91, origin=Origin("n" * 200, 2**63), acquired_at=2.0**52 + 0.5))
    for share in SHARES:
        for held in locks:
            yield Sample(LOCKS, (share, held.file.file, held.id), held)


def client_samples() -> Iterator[Sample]:
    for name in NAMES:
        for address in ADDRESSES:
            record = ClientRecord(
                id=host_id(name, address),
                name=name,
                address=address,
                local_address="2001:db8::2",
                version=4,
                transport="udp",
                recorded_at=1_700_000_000.5,
                state=2**32 - 1,
                notified=2**31,
                node="0f1e2d3c4b5a6978",
            )
            yield Sample(CLIENTS, key_of(record), record)


def node_samples() -> Iterator[Sample]:
    for node in ("a", "b" * 200, "0f1e2d3c4b5a6978"):
        for is_clean in (True, False):
            key = f"{node}-{is_clean}".encode()
            yield Sample(NODES, key, NodeRecord(2**63, is_clean, 2**64 - 1))


def all_samples() -> list[Sample]:
    return [*lock_samples(), *client_samples(), *node_samples()]


def decoded(table: Table[Any, Any], found: Sequence[tuple[bytes, bytes]]) -> dict[Any, Any]:
    return {table.unpack(key): table.decode(value) for key, value in found}


class LockRecordSuite:
    """Every test gets a fresh `store`."""

    def test_no_two_records_of_the_samples_have_one_key(self) -> None:
        """[KEEP-2]: the keys of different tables, shares, files, locks, clients and nodes differ."""
        samples = all_samples()
        assert len({sample.change()[0] for sample in samples}) == len(samples)

    def test_lock_client_and_node_records_come_back_as_they_were(self, store: MetadataStore) -> None:
        """[KEEP-2]: all fields, at full 64-bit range, fragments and hostile names included."""
        samples = all_samples()
        store.apply([sample.change() for sample in samples])
        for table in (LOCKS, CLIENTS, NODES):
            expected = {sample.key: sample.record for sample in samples if sample.table is table}
            end = bytes([table.prefix[0] + 1])
            assert decoded(table, store.scan(table.prefix, end, 100_000)) == expected
        for sample in samples:
            value = store.get(sample.table.pack(sample.key))
            assert value is not None
            assert sample.table.decode(value) == sample.record

    def test_the_locks_of_a_file_and_of_a_share_can_be_read_alone(self, store: MetadataStore) -> None:
        """[KEEP-2]: nobody's neighbour is among them."""
        samples = list(lock_samples())
        store.apply([sample.change() for sample in samples])
        for share in SHARES:
            own = {sample.key: sample.record for sample in samples if sample.key[0] == share}
            # The end is left out: neither file nor lock has the last number of all in a running server.
            expected = {key: record for key, record in own.items() if key[1:] != (LAST, LAST)}
            found = store.scan(LOCKS.pack((share, 0, 0)), LOCKS.pack((share, LAST, LAST)), 100_000)
            assert decoded(LOCKS, found) == expected
            for file in NUMBERS:
                found = store.scan(LOCKS.pack((share, file, 0)), LOCKS.pack((share, file, LAST)), 100_000)
                assert decoded(LOCKS, found) == {
                    key: record for key, record in own.items() if key[1] == file and key[2] != LAST
                }

    def test_forgetting_one_lock_leaves_the_others(self, store: MetadataStore) -> None:
        samples = list(lock_samples())
        store.apply([sample.change() for sample in samples])
        store.apply([(sample.table.pack(sample.key), None) for sample in samples[::2]])
        found = store.scan(LOCKS.prefix, bytes([LOCKS.prefix[0] + 1]), 100_000)
        assert decoded(LOCKS, found) == {sample.key: sample.record for sample in samples[1::2]}
