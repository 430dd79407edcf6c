"""The MOUNT protocol: version 3 as RFC 1813 (5) declares it, and version 1 from RFC 1094 (appendix A)."""

from enum import IntEnum
from typing import Annotated

from dittofs.xdr.types import Array, Chain, FixedOpaque, Opaque, String, XdrUnion, int32, struct, uint32, union

# 5.1.4 Sizes
MNTPATHLEN = 1024
MNTNAMLEN = 255
FHSIZE3 = 64

LIST_BOUND = 100_000
FLAVORS_BOUND = 64

# 5.1.5 Basic data types
fhandle3 = Annotated[bytes, Opaque(max=FHSIZE3)]
dirpath = Annotated[bytes, String(max=MNTPATHLEN)]
name = Annotated[bytes, String(max=MNTNAMLEN)]


class mountstat3(IntEnum):
    MNT3_OK = 0
    MNT3ERR_PERM = 1
    MNT3ERR_NOENT = 2
    MNT3ERR_IO = 5
    MNT3ERR_ACCES = 13
    MNT3ERR_NOTDIR = 20
    MNT3ERR_INVAL = 22
    MNT3ERR_NAMETOOLONG = 63
    MNT3ERR_NOTSUPP = 10004
    MNT3ERR_SERVERFAULT = 10006


# 5.2.1 MNT
@struct
class mountres3_ok:
    fhandle: fhandle3
    auth_flavors: Annotated[list[int32], Array(max=FLAVORS_BOUND)]


@union(mountstat3)
class mountres3(XdrUnion):
    MNT3_OK: mountres3_ok
    default: None


# 5.2.2 DUMP
@struct
class mountbody:
    ml_hostname: name
    ml_directory: dirpath


mountlist = Annotated[list[mountbody], Chain(max=LIST_BOUND)]


# 5.2.5 EXPORT
@struct
class groupnode:
    gr_name: name


groups = Annotated[list[groupnode], Chain(max=LIST_BOUND)]


@struct
class exportnode:
    ex_dir: dirpath
    ex_groups: groups


exports = Annotated[list[exportnode], Chain(max=LIST_BOUND)]

# Version 1, RFC 1094 A.4: a handle is 32 bytes of NFS version 2, and a status is an error number of UNIX.
FHSIZE = 32
fhandle = Annotated[bytes, FixedOpaque(FHSIZE)]


@union(uint32)
class fhstatus(XdrUnion):
    case_0: fhandle
    default: None
