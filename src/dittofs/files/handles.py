"""File ids as the opaque handles that clients keep [NFS-7].

A handle is a version, the share, the file and a keyed tag over all three: whoever does not know the share's key cannot
make one, and a handle names the same file over restarts and renames.
"""

from hashlib import blake2b
from hmac import compare_digest
from typing import Final

from dittofs.model.errors import BadHandle, StaleHandle
from dittofs.model.ids import FileId, ShareId

VERSION: Final = b"\x01"
SHARE_BYTES: Final = 8
FILE_BYTES: Final = 8
TAG_BYTES: Final = 16
HANDLE_BYTES: Final = 1 + SHARE_BYTES + FILE_BYTES + TAG_BYTES
HANDLES_REMEMBERED: Final = 32_768

_SHARE_END: Final = 1 + SHARE_BYTES
_FILE_END: Final = _SHARE_END + FILE_BYTES


def share_id_of(handle: bytes) -> ShareId:
    """Which share a handle says it belongs to.  Raises BadHandle."""
    if len(handle) != HANDLE_BYTES or handle[:1] != VERSION:
        raise BadHandle(
            f"{len(handle)} bytes, version {handle[:1].hex() or 'none'}: ours have {HANDLE_BYTES}, version 01"
        )
    return ShareId(handle[1:_SHARE_END])


class HandleCodec:
    """The handles of one share."""

    __slots__ = ("_capacity", "_files", "_handles", "_keyed", "_prefix")

    def __init__(self, share: ShareId, key: bytes, *, capacity: int = HANDLES_REMEMBERED):
        assert len(share) == SHARE_BYTES, "a share id has eight bytes"
        self._prefix = VERSION + share
        self._keyed = blake2b(key=key, digest_size=TAG_BYTES).copy  # which has the key behind it already
        self._capacity = capacity
        self._handles: dict[FileId, bytes] = {}
        self._files: dict[bytes, FileId] = {}

    def encode(self, file: FileId) -> bytes:
        """The handle of a file: always the same bytes, because clients compare handles to compare files."""
        handle = self._handles.get(file)
        if handle is None:
            signed = self._prefix + file.to_bytes(FILE_BYTES, "big")
            handle = signed + self._tag(signed)
            self._remember(file, handle)
        return handle

    def decode(self, handle: bytes) -> FileId:
        """The file a handle stands for.  Raises BadHandle for a wrong length or version, StaleHandle for anything
        else that is not ours."""
        file = self._files.get(handle)
        if file is not None:
            return file
        share_id_of(handle)
        signed = handle[:_FILE_END]
        if not signed.startswith(self._prefix):
            raise StaleHandle("the handle is one of another share")
        if not compare_digest(self._tag(signed), handle[_FILE_END:]):
            raise StaleHandle("the handle was not made by this share")
        file = FileId(int.from_bytes(handle[_SHARE_END:_FILE_END], "big"))
        self._remember(file, bytes(handle))
        return file

    def _tag(self, signed: bytes) -> bytes:
        digest = self._keyed()
        digest.update(signed)
        return digest.digest()

    def _remember(self, file: FileId, handle: bytes) -> None:
        handles = self._handles
        # Starting afresh when full costs one hash per entry and round; keeping the order of use would cost at each hit.
        if len(handles) >= self._capacity:
            handles.clear()
            self._files.clear()
        handles[file] = handle
        self._files[handle] = file
