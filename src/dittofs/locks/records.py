"""Locks, and what is kept beside them, as records for every store [KEEP-2].

The end of a range is kept as its last byte: 2**64 fits into no 64-bit field.
"""

from functools import lru_cache

import msgspec

from dittofs.locks.values import Access, Lock, Mode, Origin, Owner, Reservation
from dittofs.model.ids import ClientId, FileId, FileRef, LockId, ShareName


class NodeRecord(msgspec.Struct, frozen=True, array_like=True):
    """What a store knows of one server [KEEP-3]."""

    epoch: int
    is_clean: bool
    """It was stopped, and did not crash."""
    lock_ids_end: int
    """Every lock id below this may have been used."""


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """No two states of a file's locks have the same one."""

    node: str
    epoch: int
    number: int
    """Below zero if the node did not know what it changed."""


class LockRecord(msgspec.Struct, frozen=True, array_like=True):
    """New fields go to the end, with a default."""

    id: int
    share: str
    file: int
    owner: str
    client: str
    svid: int
    oh: bytes
    start: int
    last: int
    mode: Mode
    access: int
    deny: int
    acquired_at: float
    was_blocking: bool
    is_reclaim: bool
    is_offered: bool
    state: int
    node: str
    epoch: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LockRecord).decode


def record_of(lock: Lock) -> LockRecord:
    share, file = lock.file
    owner = lock.owner
    access, deny = (0, 0) if lock.reservation is None else lock.reservation
    node, epoch = lock.origin
    # By position: with a name for each field it takes three times as long.
    return LockRecord(
        lock.id,
        share,
        file,
        owner.id,
        owner.client,
        owner.svid,
        owner.oh,
        lock.start,
        lock.end - 1,
        lock.mode,
        int(access),
        int(deny),
        lock.acquired_at,
        lock.was_blocking,
        lock.is_reclaim,
        lock.is_offered,
        lock.state,
        node,
        epoch,
    )


# Many records of one start have these in common: one value for all of them is quicker and smaller.


@lru_cache(maxsize=16_384)
def _owner(id_: str, client: str, svid: int, oh: bytes) -> Owner:
    return Owner(id_, ClientId(client), svid, oh)


@lru_cache(maxsize=16_384)
def _file(share: str, file: int) -> FileRef:
    return FileRef(ShareName(share), FileId(file))


@lru_cache(maxsize=64)
def _origin(node: str, epoch: int) -> Origin:
    return Origin(node, epoch)


def lock_of(record: LockRecord) -> Lock:
    is_reservation = record.mode is Mode.RESERVATION
    return Lock(
        id=LockId(record.id),
        file=_file(record.share, record.file),
        owner=_owner(record.owner, record.client, record.svid, record.oh),
        start=record.start,
        end=record.last + 1,
        mode=record.mode,
        acquired_at=record.acquired_at,
        origin=_origin(record.node, record.epoch),
        state=record.state,
        reservation=Reservation(Access(record.access), Access(record.deny)) if is_reservation else None,
        was_blocking=record.was_blocking,
        is_reclaim=record.is_reclaim,
        is_offered=record.is_offered,
    )


def encoded(lock: Lock) -> bytes:
    return _encode(record_of(lock))


def decoded(data: bytes) -> Lock:
    """Raises `msgspec.MsgspecError` for bytes that are no lock."""
    return lock_of(_decode(data))
