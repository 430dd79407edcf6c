"""Parts of answers that have one size, and what packs each of them with one `struct` call.

None of these is in the RFC: they are its types with everything optional there, or cut where one piece stays the same
from answer to answer.  Beside the code that fills them, which may be compiled: declarations are read at run time.
"""

from typing import Annotated

from dittofs.files.handles import HANDLE_BYTES
from dittofs.protocols.nfs3.types import fattr3, fileid3, gid3, mode3, nfstime3, size3, specdata3, uid3, wcc_attr
from dittofs.xdr.types import FixedOpaque, packer, struct, uint32, uint64

two_times = Annotated[bytes, FixedOpaque(16)]
"""The mtime and ctime of anything, encoded."""


@struct
class times:
    mtime: nfstime3
    ctime: nfstime3


@struct
class whole_wcc_before:
    """`wcc_data` up to the attributes of afterwards."""

    has_before: bool
    before: wcc_attr
    has_after: bool


@struct
class before_links:
    """What `fattr3` begins with."""

    type: uint32
    mode: mode3


@struct
class behind_links:
    """What is between `nlink` and `mtime` in `fattr3`."""

    uid: uid3
    gid: gid3
    size: size3
    used: size3
    rdev: specdata3
    fsid: uint64
    fileid: fileid3
    atime: nfstime3


@struct
class directory_wcc_data:
    """`wcc_data` of a directory, of which a change of its entries changes links and times only."""

    has_before: bool
    size: size3
    times_before: two_times
    has_after: bool
    before_links: Annotated[bytes, FixedOpaque(8)]
    nlink: uint32
    behind_links: Annotated[bytes, FixedOpaque(56)]
    times_after: two_times


@struct
class made_object:
    """What `CREATE3resok` and its like begin with, up to the attributes of the new file."""

    has_obj: bool
    obj_size: uint32
    obj: Annotated[bytes, FixedOpaque(HANDLE_BYTES)]
    has_attributes: bool


pack_fattr3 = packer(fattr3)
pack_times = packer(times)
pack_whole_wcc_before = packer(whole_wcc_before)
pack_before_links = packer(before_links)
pack_behind_links = packer(behind_links)
pack_directory_wcc_data = packer(directory_wcc_data)
pack_made_object = packer(made_object)
