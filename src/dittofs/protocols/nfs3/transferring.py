"""READ, WRITE and COMMIT: the procedures that wait for content.  Data is passed on as it is, never copied here."""

from typing import Any, Final, cast

from dittofs.files import at_once, io
from dittofs.files.at_once import OpenedFile
from dittofs.files.io import ReadResult, Stability, WriteResult
from dittofs.model.errors import InvalidArgument
from dittofs.model.ids import FileId
from dittofs.protocols.nfs3.serving import NFS3_OK, Visitor, attributes_at, failing, waiting, wcc_at
from dittofs.protocols.nfs3.types import (
    COMMIT3args,
    COMMIT3res,
    COMMIT3resfail,
    COMMIT3resok,
    READ3args,
    READ3found,
    READ3range,
    READ3res,
    READ3resfail,
    READ3resok,
    WRITE3args,
    WRITE3res,
    WRITE3resfail,
    WRITE3resok,
    stable_how,
)
from dittofs.rpc.program import Call
from dittofs.xdr.types import Chunks, arm_encoder, packer, padding_of, unpacker

STABILITY = {
    stable_how.UNSTABLE: Stability.UNSTABLE,
    stable_how.DATA_SYNC: Stability.DATA_SYNC,
    stable_how.FILE_SYNC: Stability.FILE_SYNC,
}
_range_in = unpacker(READ3range)
_pack_found = packer(READ3found)
_encode_read = arm_encoder(READ3res, NFS3_OK)
FOUND_BYTES: Final = len(_pack_found(0, False, 0))
COMMITTED = {stability: how for how, stability in STABILITY.items()}


class Reading:
    """The next READs of a file by the same user."""

    __slots__ = ("_file", "_limit", "_services", "_size", "before")

    def __init__(self, visitor: Visitor, file: OpenedFile):
        self._services = visitor.services
        self._limit = visitor.limits.read
        self._file = file
        self._size = file.size
        out: Chunks = []
        _encode_read(out, READ3resok(visitor.attributes.encoded(file.file), 0, False, b""))
        self.before = b"".join(out)[:-FOUND_BYTES]

    def again(self, rest: bytes, out: Chunks) -> int:
        offset, count = _range_in(rest)
        if count > self._limit:
            count = self._limit
        data = self._file.read(offset, count)
        if data is None:
            return 0
        length = len(data)
        self._services.bytes_read += length
        out.append(_pack_found(length, offset + length >= self._size, length))
        out.append(cast(Any, data))
        if length & 3:
            padding = padding_of(length)
            out.append(padding)
            length += len(padding)
        return FOUND_BYTES + length


def read_at_once(call: Call, visitor: Visitor, id_: FileId, args: READ3args) -> READ3resok | None:
    """As `read`, of bytes that are at hand."""
    count = min(args.count, visitor.limits.read)
    found = at_once.read(visitor.volume, visitor.identity, id_, args.offset, count, visitor.guard)
    if found is None:
        return None
    if call.is_remembered and not found.at_end:  # the client will want the rest
        opened = at_once.open_to_read(visitor.volume, visitor.identity, id_, visitor.guard)
        if opened is not None:
            call.again, call.witness = Reading(visitor, opened[0]), opened[1]
    return _read_result(visitor, found)


@waiting(
    6,
    READ3args,
    READ3res,
    handle="file",
    failure=failing(READ3res, READ3resfail, file_attributes=attributes_at("file")),
    at_once=read_at_once,
)
async def read(call: Call, visitor: Visitor, id_: FileId, args: READ3args) -> READ3resok:
    """RFC 1813 3.3.6.  A short read is legal, so a count above what fits is cut, not refused."""
    count = min(args.count, visitor.limits.read)
    found = await io.read(visitor.volume, visitor.identity, id_, args.offset, count, guard=visitor.guard)
    return _read_result(visitor, found)


def _read_result(visitor: Visitor, found: ReadResult) -> READ3resok:
    file, data, at_end = found
    visitor.services.bytes_read += len(data)
    # Also what was not read: encoding asks for its length, and passes it on as it is.
    return READ3resok(visitor.attributes.encoded(file), len(data), at_end, cast(Any, data))


def write_at_once(call: Call, visitor: Visitor, id_: FileId, args: WRITE3args) -> WRITE3resok | None:
    """As `write`, where nothing has to be waited for."""
    verifier = visitor.volume.write_verifier
    data = _data_of(visitor, args)
    result = at_once.write(
        visitor.volume, visitor.identity, id_, args.offset, data, STABILITY[args.stable], visitor.guard
    )
    return None if result is None else _write_result(visitor, result, len(data), verifier)


@waiting(
    7,
    WRITE3args,
    WRITE3res,
    handle="file",
    failure=failing(WRITE3res, WRITE3resfail, file_wcc=wcc_at("file")),
    is_change=True,
    at_once=write_at_once,
)
async def write(call: Call, visitor: Visitor, id_: FileId, args: WRITE3args) -> WRITE3resok:
    """RFC 1813 3.3.7.  A short write is legal too.  It is not in the replay cache: written twice is the same.

    The verifier is the one from before the write: should unstable data be lost meanwhile, the client must notice.
    """
    verifier = visitor.volume.write_verifier
    data = _data_of(visitor, args)
    result = await io.write(
        visitor.volume, visitor.identity, id_, args.offset, data, STABILITY[args.stable], guard=visitor.guard
    )
    return _write_result(visitor, result, len(data), verifier)


def _data_of(visitor: Visitor, args: WRITE3args) -> bytes | bytearray | memoryview:
    if args.count != len(args.data):
        raise InvalidArgument(f"WRITE of {args.count} bytes with {len(args.data)} bytes of data")
    return args.data if args.count <= visitor.limits.write else memoryview(args.data)[: visitor.limits.write]


def _write_result(visitor: Visitor, result: WriteResult, count: int, verifier: bytes) -> WRITE3resok:
    before, after, stability = result
    visitor.services.bytes_written += count
    return WRITE3resok(visitor.attributes.wcc(before, after), count, COMMITTED[stability], verifier)


@waiting(
    21,
    COMMIT3args,
    COMMIT3res,
    handle="file",
    failure=failing(COMMIT3res, COMMIT3resfail, file_wcc=wcc_at("file")),
    is_change=True,
)
async def commit(call: Call, visitor: Visitor, id_: FileId, args: COMMIT3args) -> COMMIT3resok:
    """RFC 1813 3.3.21.  More than was asked for becomes durable, which is allowed: all of the file."""
    before, after = await io.commit(visitor.volume, id_)
    return COMMIT3resok(visitor.attributes.wcc(before, after), visitor.volume.write_verifier)
