"""The procedures that change names and attributes.

Setting a size may have to wait for content: that makes SETATTR a coroutine, and a CREATE that asks for it.  All of
these are remembered by the replay cache [NFS-5], and refused on a read-only share.

What answers consist of when they succeed has one size, so it is handed on encoded: CREATE, MKDIR, SYMLINK and MKNOD
with `_made`, REMOVE and RMDIR with the directory's `wcc_data`, RENAME with that of both.
"""

from dittofs.files import io, namespace
from dittofs.files.attributes import set_attributes
from dittofs.files.handles import HANDLE_BYTES
from dittofs.files.inodes import load
from dittofs.files.namespace import CreateMode
from dittofs.files.records import FileType
from dittofs.files.renaming import rename as rename_file
from dittofs.files.values import NOTHING, Change, File, SetAttributes
from dittofs.model.errors import WrongType
from dittofs.model.ids import FileId
from dittofs.protocols.nfs3.attributes import (
    fattr3_of,
    nanoseconds_of,
    remembered_attributes_of,
    set_attributes_of,
)
from dittofs.protocols.nfs3.packing import pack_made_object
from dittofs.protocols.nfs3.serving import Visitor, Waits, attributes_at, failing, metadata, run, waiting, wcc_at
from dittofs.protocols.nfs3.types import (
    CREATE3args,
    CREATE3res,
    CREATE3resfail,
    LINK3args,
    LINK3res,
    LINK3resfail,
    LINK3resok,
    MKDIR3args,
    MKDIR3res,
    MKDIR3resfail,
    MKNOD3args,
    MKNOD3res,
    MKNOD3resfail,
    REMOVE3args,
    REMOVE3res,
    REMOVE3resfail,
    RENAME3args,
    RENAME3res,
    RENAME3resfail,
    RMDIR3args,
    RMDIR3res,
    RMDIR3resfail,
    SETATTR3args,
    SETATTR3res,
    SETATTR3resfail,
    SETATTR3resok,
    SYMLINK3args,
    SYMLINK3res,
    SYMLINK3resfail,
    createmode3,
    devicedata3,
    ftype3,
    specdata3,
)
from dittofs.rpc.program import Call
from dittofs.stores.tables import View

EXCLUSIVE = createmode3.EXCLUSIVE
CREATE_MODES: dict[int, CreateMode] = {
    createmode3.UNCHECKED: CreateMode.UNCHECKED,
    createmode3.GUARDED: CreateMode.GUARDED,
    EXCLUSIVE: CreateMode.EXCLUSIVE,
}
NO_DEVICE = specdata3(0, 0)


@waiting(
    2,
    SETATTR3args,
    SETATTR3res,
    handle="object",
    failure=failing(SETATTR3res, SETATTR3resfail, obj_wcc=wcc_at("object")),
    is_change=True,
    is_replayed=True,
)
async def setattr_(call: Call, visitor: Visitor, id_: FileId, args: SETATTR3args) -> SETATTR3resok:
    """RFC 1813 3.3.2."""
    wanted = set_attributes_of(args.new_attributes)
    guard = None if args.guard is None else nanoseconds_of(args.guard)
    if wanted.size is None:
        change: Change = await run(call, visitor, _set_attributes, visitor, id_, wanted, guard)
    else:
        change = await io.set_attributes(visitor.volume, visitor.identity, id_, wanted, guard, guard=visitor.guard)
    return SETATTR3resok(visitor.attributes.wcc(change.before, change.after))


def _set_attributes(view: View, visitor: Visitor, id_: FileId, wanted: SetAttributes, guard: int | None) -> Change:
    return set_attributes(view, visitor.identity, load(view, id_), wanted, guard)


def _sets_size(args: CREATE3args) -> bool:
    how = args.how
    return how.discriminant != EXCLUSIVE and how.value.size is not None


async def _create_and_truncate(call: Call, visitor: Visitor, id_: FileId, args: CREATE3args) -> bytes:
    """The file may be there already, with content."""
    volume = visitor.volume
    created: Change = await volume.transactions.perform(_create, visitor, id_, args, is_relaxed=volume.is_relaxed)
    file = created.file
    if created.truncate_to is not None:
        wanted = SetAttributes(size=created.truncate_to)
        change = await io.set_attributes(volume, visitor.identity, file.id, wanted, guard=visitor.guard)
        file = change.after
    return _made(visitor, file, created.before, created.after)


@metadata(
    8,
    CREATE3args,
    CREATE3res,
    handle="where.dir",
    failure=failing(CREATE3res, CREATE3resfail, dir_wcc=wcc_at("where.dir")),
    is_change=True,
    waits=Waits(_sets_size, _create_and_truncate),
)
def create(view: View, visitor: Visitor, id_: FileId, args: CREATE3args) -> bytes:
    """RFC 1813 3.3.8."""
    created = _create(view, visitor, id_, args)
    return _made(visitor, created.file, created.before, created.after)


def _create(view: View, visitor: Visitor, id_: FileId, args: CREATE3args) -> Change:
    how = args.how
    mode = CREATE_MODES[how.discriminant]
    is_exclusive = how.discriminant == EXCLUSIVE
    return namespace.create(
        view,
        visitor.volume.tree,
        visitor.identity,
        load(view, id_),
        args.where.name,
        NOTHING if is_exclusive else remembered_attributes_of(how.value),
        mode,
        how.value if is_exclusive else b"",
    )


@metadata(
    9,
    MKDIR3args,
    MKDIR3res,
    handle="where.dir",
    failure=failing(MKDIR3res, MKDIR3resfail, dir_wcc=wcc_at("where.dir")),
    is_change=True,
)
def mkdir(view: View, visitor: Visitor, id_: FileId, args: MKDIR3args) -> bytes:
    """RFC 1813 3.3.9."""
    wanted = remembered_attributes_of(args.attributes)
    made = namespace.make_directory(
        view, visitor.volume.tree, visitor.identity, load(view, id_), args.where.name, wanted
    )
    return _made(visitor, made.file, made.before, made.after)


@metadata(
    10,
    SYMLINK3args,
    SYMLINK3res,
    handle="where.dir",
    failure=failing(SYMLINK3res, SYMLINK3resfail, dir_wcc=wcc_at("where.dir")),
    is_change=True,
)
def symlink(view: View, visitor: Visitor, id_: FileId, args: SYMLINK3args) -> bytes:
    """RFC 1813 3.3.10."""
    made = namespace.make_symlink(
        view,
        visitor.volume.tree,
        visitor.identity,
        load(view, id_),
        args.where.name,
        args.symlink.symlink_data,
        set_attributes_of(args.symlink.symlink_attributes),
    )
    return _made(visitor, made.file, made.before, made.after)


@metadata(
    11,
    MKNOD3args,
    MKNOD3res,
    handle="where.dir",
    failure=failing(MKNOD3res, MKNOD3resfail, dir_wcc=wcc_at("where.dir")),
    is_change=True,
)
def mknod(view: View, visitor: Visitor, id_: FileId, args: MKNOD3args) -> bytes:
    """RFC 1813 3.3.11."""
    what = args.what.value
    kind = FileType(args.what.discriminant)
    if what is None:
        raise WrongType(f"{ftype3(kind).name} is not made by MKNOD")
    device = what.spec if isinstance(what, devicedata3) else NO_DEVICE
    made = namespace.make_special(
        view,
        visitor.volume.tree,
        visitor.identity,
        load(view, id_),
        args.where.name,
        kind,
        set_attributes_of(what.dev_attributes if isinstance(what, devicedata3) else what),
        device.specdata1,
        device.specdata2,
    )
    return _made(visitor, made.file, made.before, made.after)


def _made(visitor: Visitor, file: File, before: File, after: File) -> bytes:
    """Handle, attributes and the directory of a new file: what every maker answers with, encoded."""
    begin: bytes = pack_made_object(1, HANDLE_BYTES, visitor.volume.codec.encode(file.id), 1)
    # Its attributes are not kept: it will be another one when it is asked for.
    return begin + fattr3_of(file, visitor.share.fsid) + visitor.attributes.wcc(before, after)


@metadata(
    12,
    REMOVE3args,
    REMOVE3res,
    handle="object.dir",
    failure=failing(REMOVE3res, REMOVE3resfail, dir_wcc=wcc_at("object.dir")),
    is_change=True,
)
def remove(view: View, visitor: Visitor, id_: FileId, args: REMOVE3args) -> bytes:
    """RFC 1813 3.3.12."""
    change = namespace.remove(view, visitor.volume.tree, visitor.identity, load(view, id_), args.object.name)
    return visitor.attributes.wcc(change.before, change.after)


@metadata(
    13,
    RMDIR3args,
    RMDIR3res,
    handle="object.dir",
    failure=failing(RMDIR3res, RMDIR3resfail, dir_wcc=wcc_at("object.dir")),
    is_change=True,
)
def rmdir(view: View, visitor: Visitor, id_: FileId, args: RMDIR3args) -> bytes:
    """RFC 1813 3.3.13."""
    change = namespace.remove_directory(view, visitor.volume.tree, visitor.identity, load(view, id_), args.object.name)
    return visitor.attributes.wcc(change.before, change.after)


@metadata(
    14,
    RENAME3args,
    RENAME3res,
    handle="from_.dir",
    failure=failing(RENAME3res, RENAME3resfail, fromdir_wcc=wcc_at("from_.dir"), todir_wcc=wcc_at("to.dir")),
    is_change=True,
)
def rename(view: View, visitor: Visitor, id_: FileId, args: RENAME3args) -> bytes:
    """RFC 1813 3.3.14."""
    to = args.to
    from_directory = to_directory = load(view, id_)
    if to.dir != args.from_.dir:
        to_directory = load(view, visitor.same_share(to.dir))
    tree, identity = visitor.volume.tree, visitor.identity
    done = rename_file(view, tree, identity, from_directory, args.from_.name, to_directory, to.name)
    wcc = visitor.attributes.wcc
    from_wcc = wcc(done.from_before, done.from_after)
    return from_wcc + (from_wcc if to_directory is from_directory else wcc(done.to_before, done.to_after))


@metadata(
    15,
    LINK3args,
    LINK3res,
    handle="file",
    failure=failing(LINK3res, LINK3resfail, file_attributes=attributes_at("file"), linkdir_wcc=wcc_at("link.dir")),
    is_change=True,
)
def link(view: View, visitor: Visitor, id_: FileId, args: LINK3args) -> LINK3resok:
    """RFC 1813 3.3.15."""
    directory = load(view, visitor.same_share(args.link.dir))
    change = namespace.link(view, visitor.volume.tree, visitor.identity, load(view, id_), directory, args.link.name)
    attributes = visitor.attributes
    return LINK3resok(attributes.encoded(change.file), attributes.wcc(change.before, change.after))
