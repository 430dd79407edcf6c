"""The file that a backup is: a line that names the format, frames, and a checksum.

    DITTOFS BACKUP 1\\n
    frames: kind (1 byte), length (4 bytes, the high one first), as many bytes
    BLAKE2b with 32 bytes over everything before it

The frames, in this order:

    S  JSON: the share, with how many files, bytes and which ids follow
    N  MessagePack: a file (`Node`); the root comes first
    E  MessagePack: a name in a directory (`Name`), after the nodes of both
    C  file id and offset (8 bytes each), then bytes of its content; what no frame has is zeros
    F  JSON: how many frames of content there were; the checksum follows, and nothing else
    X  JSON: instead of all that should follow, why the server gave up
"""

from collections.abc import Iterator
from hashlib import blake2b
from struct import Struct
from typing import Any, NamedTuple, Protocol

import msgspec

MAGIC = b"DITTOFS BACKUP 1\n"
ANY_VERSION = b"DITTOFS BACKUP "
SUM_BYTES = 32
FRAME_BYTES_MAX = 16 << 20

SHARE, NODE, NAME, CONTENT, FINISHED, FAILED = b"S", b"N", b"E", b"C", b"F", b"X"
KINDS = (SHARE, NODE, NAME, CONTENT, FINISHED, FAILED)

_HEAD = Struct(">cI")
_PLACE = Struct(">QQ")


class Source(Protocol):
    """What a backup is read from."""

    def read(self, count: int, /) -> bytes: ...


class BadBackup(Exception):
    """The file cannot be used; the message says why."""


class ShareHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What is in the file, and what the share was given when it was made.  The key makes handles, so the whole file is
    a secret."""

    name: str
    id: str
    handle_key: str
    fsid: int
    root: int
    made_at: float
    made_by: str
    files: int
    names: int
    content_bytes: int
    lowest_id: int
    highest_id: int


class Node(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file.  `type` is RFC 1813's ftype3, times are nanoseconds since 1970; mtime and ctime are a directory's own."""

    id: int
    type: int
    mode: int
    uid: int
    gid: int
    links: int
    size: int
    atime: int
    mtime: int
    ctime: int
    parent: int
    target: bytes
    device_major: int
    device_minor: int


class Name(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A name in a directory."""

    directory: int
    name: bytes
    file: int


class Finished(msgspec.Struct, frozen=True):
    """The last frame."""

    contents: int


class Failed(msgspec.Struct, frozen=True):
    error: str


class Piece(NamedTuple):
    """Some of a file's content."""

    file: int
    offset: int
    data: memoryview


_TYPES: dict[bytes, tuple[type[Any], Any]] = {
    SHARE: (ShareHeader, msgspec.json),
    NODE: (Node, msgspec.msgpack),
    NAME: (Name, msgspec.msgpack),
    FINISHED: (Finished, msgspec.json),
    FAILED: (Failed, msgspec.json),
}
Value = ShareHeader | Node | Name | Piece | Finished | Failed


def frame(kind: bytes, value: Value) -> bytes:
    """One frame, as it stands in the file."""
    if isinstance(value, Piece):
        payload: bytes = _PLACE.pack(value.file, value.offset) + value.data
    else:
        payload = _TYPES[kind][1].encode(value)
    return _HEAD.pack(kind, len(payload)) + payload


class Summed:
    """Bytes on their way, with the checksum of all that passed."""

    def __init__(self) -> None:
        self._sum = blake2b(digest_size=SUM_BYTES)
        self.count = 0

    def passed(self, data: bytes) -> bytes:
        self._sum.update(data)
        self.count += len(data)
        return data

    def digest(self) -> bytes:
        return self._sum.digest()


def read(stream: Source) -> Iterator[Value]:
    """What is in the file, in its order; after the last value the checksum was right.  Raises BadBackup."""
    summed = Summed()
    magic = summed.passed(stream.read(len(MAGIC)))
    if magic != MAGIC:
        if magic.startswith(ANY_VERSION):
            raise BadBackup(f"it is of a version that is not known here: {magic[len(ANY_VERSION) :].strip()!r}")
        raise BadBackup("it is not a backup of a share")
    while True:
        kind, length = _HEAD.unpack(summed.passed(_exactly(stream, _HEAD.size)))
        if kind not in KINDS or length > FRAME_BYTES_MAX:
            raise BadBackup(f"it is damaged before byte {summed.count}: no frame begins there")
        value = _decoded(kind, summed.passed(_exactly(stream, length)), summed.count)
        if isinstance(value, Failed):
            raise BadBackup(f"it is not complete, the server gave up: {value.error}")
        if isinstance(value, Finished):
            if _exactly(stream, SUM_BYTES) != summed.digest():
                raise BadBackup("it is damaged: the checksum is wrong")
            if stream.read(1):
                raise BadBackup("something follows behind its end")
            yield value
            return
        yield value


def _exactly(stream: Source, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise BadBackup("it is not complete: its end is missing")
    return data


def _decoded(kind: bytes, payload: bytes, position: int) -> Value:
    if kind == CONTENT:
        if len(payload) < _PLACE.size:
            raise BadBackup(f"it is damaged before byte {position}")
        file, offset = _PLACE.unpack_from(payload)
        return Piece(file, offset, memoryview(payload)[_PLACE.size :])
    declared, coding = _TYPES[kind]
    try:
        value: Value = coding.decode(payload, type=declared)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise BadBackup(f"it is damaged before byte {position}: {error}") from None
    return value
