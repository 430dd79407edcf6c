"""NFS version 3 as RFC 1813 declares it, in the RFC's order and under its names.

Two departures, both invisible on the wire: a `switch (bool)` with one arm is written `T | None`, which is the same
bytes; and `string<>` and `opaque<>` without a bound have one here, so that nothing is allocated on a client's word.
"""

from enum import IntEnum
from typing import Annotated

from dittofs.xdr.types import (
    Chain,
    FixedOpaque,
    MayBeEncoded,
    Opaque,
    OpaqueView,
    Remembered,
    String,
    XdrUnion,
    struct,
    uint32,
    uint64,
    union,
)

# 2.4 Sizes

NFS3_FHSIZE = 64
NFS3_COOKIEVERFSIZE = 8
NFS3_CREATEVERFSIZE = 8
NFS3_WRITEVERFSIZE = 8

NAME_BOUND = 65_536
"""Far above the 255 bytes that a name may have: a longer one is answered with NAMETOOLONG, not with GARBAGE_ARGS."""

DATA_BOUND = 16 * 1024 * 1024
"""Above every transfer size that is offered: a WRITE of more is cut, not refused.  The record limit comes first."""

ENTRIES_BOUND = 1_000_000

# 2.5 Basic data types

filename3 = Annotated[bytes, String(max=NAME_BOUND)]
nfspath3 = Annotated[bytes, String(max=NAME_BOUND)]
fileid3 = uint64
cookie3 = uint64
cookieverf3 = Annotated[bytes, FixedOpaque(NFS3_COOKIEVERFSIZE)]
createverf3 = Annotated[bytes, FixedOpaque(NFS3_CREATEVERFSIZE)]
writeverf3 = Annotated[bytes, FixedOpaque(NFS3_WRITEVERFSIZE)]
uid3 = uint32
gid3 = uint32
size3 = uint64
offset3 = uint64
mode3 = uint32
count3 = uint32
data3 = Annotated[bytes | bytearray | memoryview, OpaqueView(max=DATA_BOUND)]


# 2.6 Defined error numbers
class nfsstat3(IntEnum):
    NFS3_OK = 0
    NFS3ERR_PERM = 1
    NFS3ERR_NOENT = 2
    NFS3ERR_IO = 5
    NFS3ERR_NXIO = 6
    NFS3ERR_ACCES = 13
    NFS3ERR_EXIST = 17
    NFS3ERR_XDEV = 18
    NFS3ERR_NODEV = 19
    NFS3ERR_NOTDIR = 20
    NFS3ERR_ISDIR = 21
    NFS3ERR_INVAL = 22
    NFS3ERR_FBIG = 27
    NFS3ERR_NOSPC = 28
    NFS3ERR_ROFS = 30
    NFS3ERR_MLINK = 31
    NFS3ERR_NAMETOOLONG = 63
    NFS3ERR_NOTEMPTY = 66
    NFS3ERR_DQUOT = 69
    NFS3ERR_STALE = 70
    NFS3ERR_REMOTE = 71
    NFS3ERR_BADHANDLE = 10001
    NFS3ERR_NOT_SYNC = 10002
    NFS3ERR_BAD_COOKIE = 10003
    NFS3ERR_NOTSUPP = 10004
    NFS3ERR_TOOSMALL = 10005
    NFS3ERR_SERVERFAULT = 10006
    NFS3ERR_BADTYPE = 10007
    NFS3ERR_JUKEBOX = 10008


class ftype3(IntEnum):
    NF3REG = 1
    NF3DIR = 2
    NF3BLK = 3
    NF3CHR = 4
    NF3LNK = 5
    NF3SOCK = 6
    NF3FIFO = 7


@struct
class specdata3:
    specdata1: uint32
    specdata2: uint32


nfs_fh3 = Annotated[bytes, Opaque(max=NFS3_FHSIZE)]


@struct
class nfstime3:
    seconds: uint32
    nseconds: uint32


@struct
class fattr3:
    type: ftype3
    mode: mode3
    nlink: uint32
    uid: uid3
    gid: gid3
    size: size3
    used: size3
    rdev: specdata3
    fsid: uint64
    fileid: fileid3
    atime: nfstime3
    mtime: nfstime3
    ctime: nfstime3


encoded_fattr3 = Annotated[fattr3 | bytes, MayBeEncoded()]
"""The attributes that every answer carries; the server keeps them encoded (see attributes.py)."""

post_op_attr = encoded_fattr3 | None


@struct
class wcc_attr:
    size: size3
    mtime: nfstime3
    ctime: nfstime3


encoded_wcc_attr = Annotated[wcc_attr | bytes, MayBeEncoded()]
pre_op_attr = encoded_wcc_attr | None


@struct
class wcc_data:
    before: pre_op_attr
    after: post_op_attr


encoded_wcc_data = Annotated[wcc_data | bytes, MayBeEncoded()]


post_op_fh3 = nfs_fh3 | None


class time_how(IntEnum):
    DONT_CHANGE = 0
    SET_TO_SERVER_TIME = 1
    SET_TO_CLIENT_TIME = 2


set_mode3 = mode3 | None
set_uid3 = uid3 | None
set_gid3 = gid3 | None
set_size3 = size3 | None


@union(time_how)
class set_atime(XdrUnion):
    SET_TO_CLIENT_TIME: nfstime3
    default: None


@union(time_how)
class set_mtime(XdrUnion):
    SET_TO_CLIENT_TIME: nfstime3
    default: None


@struct
class sattr3:
    mode: set_mode3
    uid: set_uid3
    gid: set_gid3
    size: set_size3
    atime: set_atime
    mtime: set_mtime


@struct
class diropargs3:
    dir: nfs_fh3
    name: filename3


# 3.3.1 GETATTR
@struct
class GETATTR3args:
    object: nfs_fh3


@struct
class GETATTR3resok:
    obj_attributes: encoded_fattr3


@union(nfsstat3)
class GETATTR3res(XdrUnion):
    NFS3_OK: GETATTR3resok
    default: None


# 3.3.2 SETATTR
sattrguard3 = nfstime3 | None


@struct
class SETATTR3args:
    object: nfs_fh3
    new_attributes: sattr3
    guard: sattrguard3


@struct
class SETATTR3resok:
    obj_wcc: encoded_wcc_data


@struct
class SETATTR3resfail:
    obj_wcc: encoded_wcc_data


@union(nfsstat3)
class SETATTR3res(XdrUnion):
    NFS3_OK: SETATTR3resok
    default: SETATTR3resfail


# 3.3.3 LOOKUP
@struct
class LOOKUP3args:
    what: diropargs3


@struct
class LOOKUP3resok:
    object: nfs_fh3
    obj_attributes: post_op_attr
    dir_attributes: post_op_attr


@struct
class LOOKUP3resfail:
    dir_attributes: post_op_attr


@union(nfsstat3)
class LOOKUP3res(XdrUnion):
    NFS3_OK: LOOKUP3resok
    default: LOOKUP3resfail


# 3.3.4 ACCESS
ACCESS3_READ = 0x0001
ACCESS3_LOOKUP = 0x0002
ACCESS3_MODIFY = 0x0004
ACCESS3_EXTEND = 0x0008
ACCESS3_DELETE = 0x0010
ACCESS3_EXECUTE = 0x0020


@struct
class ACCESS3args:
    object: nfs_fh3
    access: uint32


@struct
class ACCESS3resok:
    obj_attributes: post_op_attr
    access: uint32


@struct
class ACCESS3resfail:
    obj_attributes: post_op_attr


@union(nfsstat3)
class ACCESS3res(XdrUnion):
    NFS3_OK: ACCESS3resok
    default: ACCESS3resfail


# 3.3.5 READLINK
@struct
class READLINK3args:
    symlink: nfs_fh3


@struct
class READLINK3resok:
    symlink_attributes: post_op_attr
    data: nfspath3


@struct
class READLINK3resfail:
    symlink_attributes: post_op_attr


@union(nfsstat3)
class READLINK3res(XdrUnion):
    NFS3_OK: READLINK3resok
    default: READLINK3resfail


# 3.3.6 READ
@struct
class READ3args:
    file: nfs_fh3
    offset: offset3
    count: count3


@struct
class READ3range:
    """The end of READ3args: what differs between two READs of one file."""

    offset: offset3
    count: count3


@struct
class READ3resok:
    file_attributes: post_op_attr
    count: count3
    eof: bool
    data: data3


@struct
class READ3found:
    """The end of READ3resok, up to the data: what differs between the answers to these."""

    count: count3
    eof: bool
    length: uint32


@struct
class READ3resfail:
    file_attributes: post_op_attr


@union(nfsstat3)
class READ3res(XdrUnion):
    NFS3_OK: READ3resok
    default: READ3resfail


# 3.3.7 WRITE
class stable_how(IntEnum):
    UNSTABLE = 0
    DATA_SYNC = 1
    FILE_SYNC = 2


@struct
class WRITE3args:
    file: nfs_fh3
    offset: offset3
    count: count3
    stable: stable_how
    data: data3


@struct
class WRITE3resok:
    file_wcc: encoded_wcc_data
    count: count3
    committed: stable_how
    verf: writeverf3


@struct
class WRITE3resfail:
    file_wcc: encoded_wcc_data


@union(nfsstat3)
class WRITE3res(XdrUnion):
    NFS3_OK: WRITE3resok
    default: WRITE3resfail


# 3.3.8 CREATE
class createmode3(IntEnum):
    UNCHECKED = 0
    GUARDED = 1
    EXCLUSIVE = 2


@union(createmode3)
class createhow3(XdrUnion):
    UNCHECKED: sattr3
    GUARDED: sattr3
    EXCLUSIVE: createverf3


@struct
class CREATE3args:
    where: diropargs3
    how: Annotated[createhow3, Remembered()]


@struct
class CREATE3resok:
    obj: post_op_fh3
    obj_attributes: post_op_attr
    dir_wcc: encoded_wcc_data


@struct
class CREATE3resfail:
    dir_wcc: encoded_wcc_data


@union(nfsstat3)
class CREATE3res(XdrUnion):
    NFS3_OK: Annotated[CREATE3resok | bytes, MayBeEncoded()]
    default: CREATE3resfail


# 3.3.9 MKDIR
@struct
class MKDIR3args:
    where: diropargs3
    attributes: Annotated[sattr3, Remembered()]


@struct
class MKDIR3resok:
    obj: post_op_fh3
    obj_attributes: post_op_attr
    dir_wcc: encoded_wcc_data


@struct
class MKDIR3resfail:
    dir_wcc: encoded_wcc_data


@union(nfsstat3)
class MKDIR3res(XdrUnion):
    NFS3_OK: Annotated[MKDIR3resok | bytes, MayBeEncoded()]
    default: MKDIR3resfail


# 3.3.10 SYMLINK
@struct
class symlinkdata3:
    symlink_attributes: sattr3
    symlink_data: nfspath3


@struct
class SYMLINK3args:
    where: diropargs3
    symlink: symlinkdata3


@struct
class SYMLINK3resok:
    obj: post_op_fh3
    obj_attributes: post_op_attr
    dir_wcc: encoded_wcc_data


@struct
class SYMLINK3resfail:
    dir_wcc: encoded_wcc_data


@union(nfsstat3)
class SYMLINK3res(XdrUnion):
    NFS3_OK: Annotated[SYMLINK3resok | bytes, MayBeEncoded()]
    default: SYMLINK3resfail


# 3.3.11 MKNOD
@struct
class devicedata3:
    dev_attributes: sattr3
    spec: specdata3


@union(ftype3)
class mknoddata3(XdrUnion):
    NF3CHR: devicedata3
    NF3BLK: devicedata3
    NF3SOCK: sattr3
    NF3FIFO: sattr3
    default: None


@struct
class MKNOD3args:
    where: diropargs3
    what: mknoddata3


@struct
class MKNOD3resok:
    obj: post_op_fh3
    obj_attributes: post_op_attr
    dir_wcc: encoded_wcc_data


@struct
class MKNOD3resfail:
    dir_wcc: encoded_wcc_data


@union(nfsstat3)
class MKNOD3res(XdrUnion):
    NFS3_OK: Annotated[MKNOD3resok | bytes, MayBeEncoded()]
    default: MKNOD3resfail


# 3.3.12 REMOVE
@struct
class REMOVE3args:
    object: diropargs3


@struct
class REMOVE3resok:
    dir_wcc: encoded_wcc_data


@struct
class REMOVE3resfail:
    dir_wcc: encoded_wcc_data


@union(nfsstat3)
class REMOVE3res(XdrUnion):
    NFS3_OK: Annotated[REMOVE3resok | bytes, MayBeEncoded()]
    default: REMOVE3resfail


# 3.3.13 RMDIR
@struct
class RMDIR3args:
    object: diropargs3


@struct
class RMDIR3resok:
    dir_wcc: encoded_wcc_data


@struct
class RMDIR3resfail:
    dir_wcc: encoded_wcc_data


@union(nfsstat3)
class RMDIR3res(XdrUnion):
    NFS3_OK: Annotated[RMDIR3resok | bytes, MayBeEncoded()]
    default: RMDIR3resfail


# 3.3.14 RENAME; `from` is a word of Python
@struct
class RENAME3args:
    from_: diropargs3
    to: diropargs3


@struct
class RENAME3resok:
    fromdir_wcc: encoded_wcc_data
    todir_wcc: encoded_wcc_data


@struct
class RENAME3resfail:
    fromdir_wcc: encoded_wcc_data
    todir_wcc: encoded_wcc_data


@union(nfsstat3)
class RENAME3res(XdrUnion):
    NFS3_OK: Annotated[RENAME3resok | bytes, MayBeEncoded()]
    default: RENAME3resfail


# 3.3.15 LINK
@struct
class LINK3args:
    file: nfs_fh3
    link: diropargs3


@struct
class LINK3resok:
    file_attributes: post_op_attr
    linkdir_wcc: encoded_wcc_data


@struct
class LINK3resfail:
    file_attributes: post_op_attr
    linkdir_wcc: encoded_wcc_data


@union(nfsstat3)
class LINK3res(XdrUnion):
    NFS3_OK: LINK3resok
    default: LINK3resfail


# 3.3.16 READDIR
@struct
class READDIR3args:
    dir: nfs_fh3
    cookie: cookie3
    cookieverf: cookieverf3
    count: count3


@struct
class entry3:
    fileid: fileid3
    name: filename3
    cookie: cookie3


@struct
class dirlist3:
    entries: Annotated[list[entry3], Chain(max=ENTRIES_BOUND)]
    eof: bool


@struct
class READDIR3resok:
    dir_attributes: post_op_attr
    cookieverf: cookieverf3
    reply: Annotated[dirlist3 | bytes, MayBeEncoded()]


@struct
class READDIR3resfail:
    dir_attributes: post_op_attr


@union(nfsstat3)
class READDIR3res(XdrUnion):
    NFS3_OK: READDIR3resok
    default: READDIR3resfail


# 3.3.17 READDIRPLUS
@struct
class READDIRPLUS3args:
    dir: nfs_fh3
    cookie: cookie3
    cookieverf: cookieverf3
    dircount: count3
    maxcount: count3


@struct
class entryplus3:
    fileid: fileid3
    name: filename3
    cookie: cookie3
    name_attributes: post_op_attr
    name_handle: post_op_fh3


@struct
class dirlistplus3:
    entries: Annotated[list[entryplus3], Chain(max=ENTRIES_BOUND)]
    eof: bool


@struct
class READDIRPLUS3resok:
    dir_attributes: post_op_attr
    cookieverf: cookieverf3
    reply: Annotated[dirlistplus3 | bytes, MayBeEncoded()]


@struct
class READDIRPLUS3resfail:
    dir_attributes: post_op_attr


@union(nfsstat3)
class READDIRPLUS3res(XdrUnion):
    NFS3_OK: READDIRPLUS3resok
    default: READDIRPLUS3resfail


# 3.3.18 FSSTAT
@struct
class FSSTAT3args:
    fsroot: nfs_fh3


@struct
class FSSTAT3resok:
    obj_attributes: post_op_attr
    tbytes: size3
    fbytes: size3
    abytes: size3
    tfiles: size3
    ffiles: size3
    afiles: size3
    invarsec: uint32


@struct
class FSSTAT3resfail:
    obj_attributes: post_op_attr


@union(nfsstat3)
class FSSTAT3res(XdrUnion):
    NFS3_OK: FSSTAT3resok
    default: FSSTAT3resfail


# 3.3.19 FSINFO
FSF3_LINK = 0x0001
FSF3_SYMLINK = 0x0002
FSF3_HOMOGENEOUS = 0x0008
FSF3_CANSETTIME = 0x0010


@struct
class FSINFO3args:
    fsroot: nfs_fh3


@struct
class FSINFO3resok:
    obj_attributes: post_op_attr
    rtmax: uint32
    rtpref: uint32
    rtmult: uint32
    wtmax: uint32
    wtpref: uint32
    wtmult: uint32
    dtpref: uint32
    maxfilesize: size3
    time_delta: nfstime3
    properties: uint32


@struct
class FSINFO3resfail:
    obj_attributes: post_op_attr


@union(nfsstat3)
class FSINFO3res(XdrUnion):
    NFS3_OK: FSINFO3resok
    default: FSINFO3resfail


# 3.3.20 PATHCONF
@struct
class PATHCONF3args:
    object: nfs_fh3


@struct
class PATHCONF3resok:
    obj_attributes: post_op_attr
    linkmax: uint32
    name_max: uint32
    no_trunc: bool
    chown_restricted: bool
    case_insensitive: bool
    case_preserving: bool


@struct
class PATHCONF3resfail:
    obj_attributes: post_op_attr


@union(nfsstat3)
class PATHCONF3res(XdrUnion):
    NFS3_OK: PATHCONF3resok
    default: PATHCONF3resfail


# 3.3.21 COMMIT
@struct
class COMMIT3args:
    file: nfs_fh3
    offset: offset3
    count: count3


@struct
class COMMIT3resok:
    file_wcc: encoded_wcc_data
    verf: writeverf3


@struct
class COMMIT3resfail:
    file_wcc: encoded_wcc_data


@union(nfsstat3)
class COMMIT3res(XdrUnion):
    NFS3_OK: COMMIT3resok
    default: COMMIT3resfail
