"""READDIR and READDIRPLUS: as many entries as fit into what the client has room for, counted to the byte.

The position in a directory is good for ever, so the cookie verifier is a constant.
"""

from dittofs.files.inodes import load
from dittofs.files.namespace import check_listing, may_list_files
from dittofs.model.errors import BadCookie
from dittofs.model.ids import FileId
from dittofs.protocols.nfs3.entries import Telling
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
    fattr3,
)
from dittofs.stores.tables import View
from dittofs.xdr.shapes import smallest_size
from dittofs.xdr.types import encoded, shape_of

COOKIE_VERIFIER = b"\0\0\0\0\0\0\0\1"
NO_VERIFIER = bytes(NFS3_COOKIEVERFSIZE)
"""Some clients begin anew with a cookie they kept and no verifier."""

_ATTRIBUTES = bytes(smallest_size(shape_of(fattr3)))
EMPTY = len(encoded(READDIR3resok, READDIR3resok(_ATTRIBUTES, COOKIE_VERIFIER, dirlist3([], True))))
EMPTY_PLUS = len(encoded(READDIRPLUS3resok, READDIRPLUS3resok(_ATTRIBUTES, COOKIE_VERIFIER, dirlistplus3([], True))))


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
    check_listing(visitor.identity, directory, args.cookie)
    room = min(args.count, visitor.limits.directory) - EMPTY
    listed = visitor.entries.list_behind(view, directory, args.cookie, Telling.NAME, room=room, plain_room=room)
    return READDIR3resok(visitor.attributes.encoded(directory), COOKIE_VERIFIER, listed)


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
    check_listing(visitor.identity, directory, args.cookie)
    telling = Telling.FILE if may_list_files(visitor.identity, directory) else Telling.NO_FILE
    room = min(args.maxcount, visitor.limits.directory) - EMPTY_PLUS
    listed = visitor.entries.list_behind(view, directory, args.cookie, telling, room=room, plain_room=args.dircount)
    return READDIRPLUS3resok(visitor.attributes.encoded(directory), COOKIE_VERIFIER, listed)


def _check_verifier(cookie: int, verifier: bytes) -> None:
    if cookie and verifier not in (COOKIE_VERIFIER, NO_VERIFIER):
        raise BadCookie(f"cookie verifier {verifier.hex()}, ours is {COOKIE_VERIFIER.hex()}")
