"""From locks to the bytes that every store keeps, and back [KEEP-2]."""

from functools import lru_cache

import msgspec

from dittofs.locks.records import LockRecord
from dittofs.locks.values import Access, Lock, Mode, Origin, Owner, Reservation
from dittofs.model.ids import ClientId, FileId, FileRef, LockId, ShareName

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
