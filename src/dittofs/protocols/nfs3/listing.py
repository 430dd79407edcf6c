"""READDIR and READDIRPLUS: as many entries as fit into what the client has room for, counted to the byte.

Each entry is encoded once, which also tells its size, and goes into the answer as it is.  The position in a directory
is good for ever, so the cookie verifier is a constant.
"""

from collections.abc import Callable

from dittofs.files.handles import HANDLE_BYTES
from dittofs.files.inodes import load
from dittofs.files.namespace import Listed, read_directory
from dittofs.files.values import File
from dittofs.model.errors import BadCookie, TooSmall
from dittofs.model.ids import FileId
from dittofs.protocols.nfs3.serving import Visitor, attributes_at, failing, metadata
from dittofs.protocols.nfs3.types import (
    NFS3_COOKIEVERFSIZE,
    READDIR3args,
    READDIR3res,
    READDIR3resfail,
    READDIR3resok,
    READDIRPLUS3args,
    READDIRPLUS3res,
    READDIRPLUS3resfail,
    READDIRPLUS3resok,
    dirlist3,
    dirlistplus3,
    entry3,
    entryplus3,
    fattr3,
)
from dittofs.stores.tables import View
from dittofs.xdr.shapes import smallest_size
from dittofs.xdr.types import Chunks, codec_of, encoded, shape_of

COOKIE_VERIFIER = b"\0\0\0\0\0\0\0\1"
NO_VERIFIER = bytes(NFS3_COOKIEVERFSIZE)
"""Some clients begin anew with a cookie they kept and no verifier."""

ENTRIES_AT_ONCE = 128

FOLLOWS = len(encoded(bool, True))
"""The word in front of each entry that says that there is one."""

_ATTRIBUTES = bytes(smallest_size(shape_of(fattr3)))
EMPTY = len(encoded(READDIR3resok, READDIR3resok(_ATTRIBUTES, COOKIE_VERIFIER, dirlist3([], True))))
EMPTY_PLUS = len(encoded(READDIRPLUS3resok, READDIRPLUS3resok(_ATTRIBUTES, COOKIE_VERIFIER, dirlistplus3([], True))))

_PLAIN = len(encoded(entry3, entry3(0, b"", 0)))
_WITH_FILE = len(encoded(entryplus3, entryplus3(0, b"", 0, _ATTRIBUTES, bytes(HANDLE_BYTES)))) - _PLAIN
_WITHOUT_FILE = len(encoded(entryplus3, entryplus3(0, b"", 0, None, None))) - _PLAIN

_encode_entry = codec_of(entry3).encode
_encode_entryplus = codec_of(entryplus3).encode

Fit = Callable[[Listed], bytes | None]
"""Encodes an entry if there is room for it, else says None."""


@metadata(
    16,
    READDIR3args,
    READDIR3res,
    handle="dir",
    failure=failing(READDIR3res, READDIR3resfail, dir_attributes=attributes_at("dir")),
)
def readdir(view: View, visitor: Visitor, id_: FileId, args: READDIR3args) -> READDIR3resok:
    """RFC 1813 3.3.16: `count` is for the whole of READDIR3resok."""
    _check_verifier(args.cookie, args.cookieverf)
    directory = load(view, id_)
    room = min(args.count, visitor.limits.directory) - EMPTY

    def fit(listed: Listed) -> bytes | None:
        nonlocal room
        out: Chunks = []
        _encode_entry(out, entry3(listed.id, listed.name, listed.cookie))
        entry = b"".join(out)
        room -= FOLLOWS + len(entry)
        return entry if room >= 0 else None

    entries, at_end = _fill(view, visitor, directory, args.cookie, fit, with_files=False)
    return READDIR3resok(visitor.attributes.encoded(directory), COOKIE_VERIFIER, dirlist3([*entries], at_end))


@metadata(
    17,
    READDIRPLUS3args,
    READDIRPLUS3res,
    handle="dir",
    failure=failing(READDIRPLUS3res, READDIRPLUS3resfail, dir_attributes=attributes_at("dir")),
)
def readdirplus(view: View, visitor: Visitor, id_: FileId, args: READDIRPLUS3args) -> READDIRPLUS3resok:
    """RFC 1813 3.3.17: `maxcount` is for the whole of READDIRPLUS3resok, `dircount` for what READDIR would tell."""
    _check_verifier(args.cookie, args.cookieverf)
    directory = load(view, id_)
    attributes, handle_of = visitor.attributes, visitor.volume.codec.encode
    room = min(args.maxcount, visitor.limits.directory) - EMPTY_PLUS
    plain_room = args.dircount

    def fit(listed: Listed) -> bytes | None:
        nonlocal room, plain_room
        cookie, name, file_id, file = listed
        out: Chunks = []
        if file is None:
            _encode_entryplus(out, entryplus3(file_id, name, cookie, None, None))
        else:
            _encode_entryplus(out, entryplus3(file_id, name, cookie, attributes.encoded(file), handle_of(file_id)))
        entry = b"".join(out)
        room -= FOLLOWS + len(entry)
        plain_room -= len(entry) - (_WITHOUT_FILE if file is None else _WITH_FILE)
        return entry if room >= 0 and plain_room >= 0 else None

    entries, at_end = _fill(view, visitor, directory, args.cookie, fit, with_files=True)
    return READDIRPLUS3resok(attributes.encoded(directory), COOKIE_VERIFIER, dirlistplus3([*entries], at_end))


def _check_verifier(cookie: int, verifier: bytes) -> None:
    if cookie and verifier not in (COOKIE_VERIFIER, NO_VERIFIER):
        raise BadCookie(f"cookie verifier {verifier.hex()}, ours is {COOKIE_VERIFIER.hex()}")


def _fill(
    view: View, visitor: Visitor, directory: File, cookie: int, fit: Fit, *, with_files: bool
) -> tuple[list[bytes], bool]:
    """Encoded entries behind a cookie for as long as they fit, and whether these were the last."""
    entries: list[bytes] = []
    while True:
        listing = read_directory(
            view,
            visitor.volume.tree,
            visitor.identity,
            directory,
            cookie,
            ENTRIES_AT_ONCE,
            with_files=with_files,
        )
        for listed in listing.entries:
            entry = fit(listed)
            if entry is None:
                if not entries:
                    raise TooSmall("the answer has no room for a single entry")
                return entries, False
            entries.append(entry)
            cookie = listed.cookie
        if listing.at_end:
            return entries, True
