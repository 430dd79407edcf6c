"""The procedures of NFS version 3: those that only look at one file; importing this module registers all 22.

A handler translates: arguments to domain values, one service, domain values to the result.  The rules about files are
in `files/`; how a call comes to a file, and what a failed one answers, is in `serving.py`.
"""

from dittofs.files import access, namespace
from dittofs.files.inodes import load
from dittofs.files.records import MAX_LINKS, NAME_MAX
from dittofs.model.ids import FileId
from dittofs.protocols.nfs3 import changing, listing, transferring
from dittofs.protocols.nfs3.serving import NFS3, Visitor, attributes_at, failing, metadata
from dittofs.protocols.nfs3.types import (
    FSF3_CANSETTIME,
    FSF3_HOMOGENEOUS,
    FSF3_LINK,
    FSF3_SYMLINK,
    ACCESS3args,
    ACCESS3res,
    ACCESS3resfail,
    ACCESS3resok,
    FSINFO3args,
    FSINFO3res,
    FSINFO3resfail,
    FSINFO3resok,
    FSSTAT3args,
    FSSTAT3res,
    FSSTAT3resfail,
    FSSTAT3resok,
    GETATTR3args,
    GETATTR3res,
    GETATTR3resok,
    LOOKUP3args,
    LOOKUP3res,
    LOOKUP3resfail,
    LOOKUP3resok,
    PATHCONF3args,
    PATHCONF3res,
    PATHCONF3resfail,
    PATHCONF3resok,
    READLINK3args,
    READLINK3res,
    READLINK3resfail,
    READLINK3resok,
    nfstime3,
)
from dittofs.rpc.program import Call
from dittofs.stores.tables import View

REGISTERED_ELSEWHERE = (changing, listing, transferring)

BLOCK = 4096
"""Transfers of a multiple of this are the cheapest."""

NO_LIMIT = 2**63 - 1
"""There may be as many files as there is room for their records."""


@NFS3.procedure(0, None, None)
def null(call: Call, args: None) -> None:
    """RFC 1813 3.3.0."""


@metadata(1, GETATTR3args, GETATTR3res, handle="object", failure=failing(GETATTR3res), is_lasting=True)
def getattr_(view: View, visitor: Visitor, id_: FileId, args: GETATTR3args) -> GETATTR3resok:
    """RFC 1813 3.3.1."""
    return GETATTR3resok(visitor.attributes.encoded(load(view, id_)))


@metadata(
    3,
    LOOKUP3args,
    LOOKUP3res,
    handle="what.dir",
    failure=failing(LOOKUP3res, LOOKUP3resfail, dir_attributes=attributes_at("what.dir")),
    is_lasting=True,
)
def lookup(view: View, visitor: Visitor, id_: FileId, args: LOOKUP3args) -> LOOKUP3resok:
    """RFC 1813 3.3.3."""
    volume, attributes = visitor.volume, visitor.attributes
    directory = load(view, id_)
    file = namespace.lookup(view, volume.tree, visitor.identity, directory, args.what.name)
    return LOOKUP3resok(volume.codec.encode(file.id), attributes.encoded(file), attributes.encoded(directory))


@metadata(
    4,
    ACCESS3args,
    ACCESS3res,
    handle="object",
    failure=failing(ACCESS3res, ACCESS3resfail, obj_attributes=attributes_at("object")),
    is_lasting=True,
)
def access_(view: View, visitor: Visitor, id_: FileId, args: ACCESS3args) -> ACCESS3resok:
    """RFC 1813 3.3.4."""
    file = load(view, id_)
    granted = access.granted(visitor.identity, file.inode, args.access, is_read_only=visitor.share.is_read_only)
    return ACCESS3resok(visitor.attributes.encoded(file), granted)


@metadata(
    5,
    READLINK3args,
    READLINK3res,
    handle="symlink",
    failure=failing(READLINK3res, READLINK3resfail, symlink_attributes=attributes_at("symlink")),
    is_lasting=True,
)
def readlink(view: View, visitor: Visitor, id_: FileId, args: READLINK3args) -> READLINK3resok:
    """RFC 1813 3.3.5."""
    file = load(view, id_)
    target = namespace.read_symlink(file)
    return READLINK3resok(visitor.attributes.encoded(file), target)


@metadata(
    18,
    FSSTAT3args,
    FSSTAT3res,
    handle="fsroot",
    failure=failing(FSSTAT3res, FSSTAT3resfail, obj_attributes=attributes_at("fsroot")),
)
def fsstat(view: View, visitor: Visitor, id_: FileId, args: FSSTAT3args) -> FSSTAT3resok:
    """RFC 1813 3.3.18.  The numbers are those of the content store, which other shares may use too."""
    usage = visitor.volume.usage()
    return FSSTAT3resok(
        obj_attributes=visitor.attributes.encoded(load(view, id_)),
        tbytes=usage.total,
        fbytes=usage.free,
        abytes=usage.available,
        tfiles=NO_LIMIT,
        ffiles=NO_LIMIT,
        afiles=NO_LIMIT,
        invarsec=0,
    )


@metadata(
    19,
    FSINFO3args,
    FSINFO3res,
    handle="fsroot",
    failure=failing(FSINFO3res, FSINFO3resfail, obj_attributes=attributes_at("fsroot")),
)
def fsinfo(view: View, visitor: Visitor, id_: FileId, args: FSINFO3args) -> FSINFO3resok:
    """RFC 1813 3.3.19."""
    limits = visitor.limits
    return FSINFO3resok(
        obj_attributes=visitor.attributes.encoded(load(view, id_)),
        rtmax=limits.read,
        rtpref=limits.read,
        rtmult=BLOCK,
        wtmax=limits.write,
        wtpref=limits.write,
        wtmult=BLOCK,
        dtpref=limits.directory,
        maxfilesize=visitor.volume.max_file_size,
        time_delta=nfstime3(0, 1),
        properties=FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME,
    )


@metadata(
    20,
    PATHCONF3args,
    PATHCONF3res,
    handle="object",
    failure=failing(PATHCONF3res, PATHCONF3resfail, obj_attributes=attributes_at("object")),
    is_lasting=True,
)
def pathconf(view: View, visitor: Visitor, id_: FileId, args: PATHCONF3args) -> PATHCONF3resok:
    """RFC 1813 3.3.20."""
    return PATHCONF3resok(
        obj_attributes=visitor.attributes.encoded(load(view, id_)),
        linkmax=MAX_LINKS,
        name_max=NAME_MAX,
        no_trunc=True,
        chown_restricted=True,
        case_insensitive=False,
        case_preserving=True,
    )
