"""READ, WRITE and COMMIT: the procedures that wait for content.  Data is passed on as it is, never copied here."""

from dittofs.files import io
from dittofs.files.io import Stability
from dittofs.model.errors import InvalidArgument
from dittofs.model.ids import FileId
from dittofs.protocols.nfs3.serving import Visitor, attributes_at, failing, waiting, wcc_at
from dittofs.protocols.nfs3.types import (
    COMMIT3args,
    COMMIT3res,
    COMMIT3resfail,
    COMMIT3resok,
    READ3args,
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

STABILITY = {
    stable_how.UNSTABLE: Stability.UNSTABLE,
    stable_how.DATA_SYNC: Stability.DATA_SYNC,
    stable_how.FILE_SYNC: Stability.FILE_SYNC,
}


@waiting(
    6,
    READ3args,
    READ3res,
    handle="file",
    failure=failing(READ3res, READ3resfail, file_attributes=attributes_at("file")),
)
async def read(call: Call, visitor: Visitor, id_: FileId, args: READ3args) -> READ3resok:
    """RFC 1813 3.3.6.  A short read is legal, so a count above what fits is cut, not refused."""
    count = min(args.count, visitor.limits.read)
    file, data, at_end = await io.read(visitor.volume, visitor.identity, id_, args.offset, count, guard=visitor.guard)
    visitor.services.bytes_read += len(data)
    return READ3resok(visitor.attributes.encoded(file), len(data), at_end, data)


@waiting(
    7,
    WRITE3args,
    WRITE3res,
    handle="file",
    failure=failing(WRITE3res, WRITE3resfail, file_wcc=wcc_at("file")),
    is_change=True,
)
async def write(call: Call, visitor: Visitor, id_: FileId, args: WRITE3args) -> WRITE3resok:
    """RFC 1813 3.3.7.  A short write is legal too.  It is not in the replay cache: written twice is the same.

    The verifier is the one from before the write: should unstable data be lost meanwhile, the client must notice.
    """
    if args.count != len(args.data):
        raise InvalidArgument(f"WRITE of {args.count} bytes with {len(args.data)} bytes of data")
    verifier = visitor.volume.write_verifier
    data = args.data if args.count <= visitor.limits.write else memoryview(args.data)[: visitor.limits.write]
    before, after, stability = await io.write(
        visitor.volume, visitor.identity, id_, args.offset, data, STABILITY[args.stable], guard=visitor.guard
    )
    visitor.services.bytes_written += len(data)
    return WRITE3resok(visitor.attributes.wcc(before, after), len(data), stable_how(stability), verifier)


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
