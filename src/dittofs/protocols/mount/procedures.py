"""MOUNT version 3 (RFC 1813 5) and version 1 (RFC 1094 A): how a client comes by its first handle [NFS-2].

A path is walked with the rights of the server, as every mount daemon does: the client is judged by its address here,
and by its user at each call afterwards.
"""

from typing import Any

from dittofs.files import namespace
from dittofs.files.inodes import load
from dittofs.files.tree import Tree
from dittofs.files.values import File
from dittofs.model.errors import FileError, NotADirectory, NotFound, NotSupported
from dittofs.model.identity import Identity
from dittofs.protocols.mount.errors import status_of
from dittofs.protocols.mount.mounts import Mount, MountList
from dittofs.protocols.mount.types import (
    dirpath,
    exportnode,
    exports,
    fhstatus,
    groupnode,
    mountbody,
    mountlist,
    mountres3,
    mountres3_ok,
    mountstat3,
)
from dittofs.rpc.datagrams import that_fit
from dittofs.rpc.program import Call, Program
from dittofs.shares.registry import ShareRegistry
from dittofs.shares.share import Share
from dittofs.stores.tables import View

MOUNT1 = Program("MOUNT", 100005, 1)
MOUNT3 = Program("MOUNT", 100005, 3)

SERVER = Identity(uid=0, gid=0)


class MountServices:
    """What the procedures work on; the server binds one to both versions."""

    __slots__ = ("mounts", "shares")

    def __init__(self, shares: ShareRegistry):
        self.shares = shares
        self.mounts = MountList()


def _refused(call: Call, args: Any, error: FileError) -> mountres3:
    return mountres3(status_of(error))


def _refused_v1(call: Call, args: Any, error: FileError) -> fhstatus:
    return fhstatus(status_of(error))


@MOUNT3.procedure(0, None, None)
@MOUNT1.procedure(0, None, None)
def null(call: Call, args: None) -> None:
    """RFC 1813 5.2.0."""


@MOUNT3.procedure(1, dirpath, mountres3, failure=_refused)
async def mnt(call: Call, args: bytes) -> mountres3:
    """RFC 1813 5.2.1.  Any directory of a share can be mounted."""
    services: MountServices = call.services
    found = services.shares.find_path(_path_text(args))
    if found is None:
        raise NotFound(f"no share holds {args!r}")
    share, names = found
    share.check_address(call.peer.address)
    volume = share.volume
    directory = await volume.transactions.perform(_walk, volume.tree, names, is_relaxed=volume.is_relaxed)
    services.mounts.add(Mount(call.peer.address, args))
    return mountres3(
        mountstat3.MNT3_OK,
        mountres3_ok(fhandle=volume.codec.encode(directory.id), auth_flavors=list(share.flavors)),
    )


@MOUNT1.procedure(1, dirpath, fhstatus, failure=_refused_v1)
def mnt_v1(call: Call, args: bytes) -> fhstatus:
    """RFC 1094 A.5.2.  A handle of version 1 is for NFS version 2, which is not served."""
    raise NotSupported("MOUNT version 1 gives handles of NFS version 2; version 3 is served")


@MOUNT3.procedure(2, None, mountlist)
@MOUNT1.procedure(2, None, mountlist)
def dump(call: Call, args: None) -> list[mountbody]:
    """RFC 1813 5.2.2."""
    services: MountServices = call.services
    return that_fit(
        call.peer,
        mountbody,
        (mountbody(ml_hostname=mount.address.encode(), ml_directory=mount.path) for mount in services.mounts),
    )


@MOUNT3.procedure(3, dirpath, None)
@MOUNT1.procedure(3, dirpath, None)
def umnt(call: Call, args: bytes) -> None:
    """RFC 1813 5.2.3."""
    services: MountServices = call.services
    services.mounts.remove(Mount(call.peer.address, args))


@MOUNT3.procedure(4, None, None)
@MOUNT1.procedure(4, None, None)
def umntall(call: Call, args: None) -> None:
    """RFC 1813 5.2.4."""
    services: MountServices = call.services
    services.mounts.remove_all(call.peer.address)


@MOUNT3.procedure(5, None, exports)
@MOUNT1.procedure(5, None, exports)
def export(call: Call, args: None) -> list[exportnode]:
    """RFC 1813 5.2.5.  A share without groups is one for everyone, which is how `showmount` prints it."""
    services: MountServices = call.services
    return that_fit(call.peer, exportnode, map(_exported, services.shares))


def _exported(share: Share) -> exportnode:
    networks = [] if share.networks.is_everyone else [str(network) for network in share.networks]
    return exportnode(
        ex_dir=share.name.encode("utf-8", "surrogateescape"),
        ex_groups=[groupnode(gr_name=network.encode()) for network in networks],
    )


def _path_text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _walk(view: View, tree: Tree, names: list[str]) -> File:
    """The directory at the end of a path.  A symbolic link is not followed: it is the client's to resolve."""
    file = load(view, tree.root)
    for name in names:
        file = namespace.lookup(view, tree, SERVER, file, name.encode("utf-8", "surrogateescape"))
    if not file.is_directory:
        raise NotADirectory("only a directory can be mounted")
    return file
