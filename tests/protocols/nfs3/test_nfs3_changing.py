"""The procedures that change names and attributes, with their WCC data [NFS-1]."""

from typing import Any

import pytest

from dittofs.client.nfs3 import EXCHANGES, Nfs3Client, Nfs3Error, attributes
from dittofs.files.values import Removed
from dittofs.protocols.nfs3 import types as t
from tests.protocols.world import ALICE, World

UNCHECKED = t.createmode3.UNCHECKED
EXCLUSIVE = t.createmode3.EXCLUSIVE


def made(result: Any) -> bytes:
    """The handle of something new."""
    assert isinstance(result.obj, bytes)
    return result.obj


def weak(attributes: t.fattr3) -> t.wcc_attr:
    return t.wcc_attr(attributes.size, attributes.mtime, attributes.ctime)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda nfs, root: nfs.create(root, b"n"), t.ftype3.NF3REG),
        (lambda nfs, root: nfs.mkdir(root, b"n"), t.ftype3.NF3DIR),
        (lambda nfs, root: nfs.symlink(root, b"n", b"target"), t.ftype3.NF3LNK),
        (lambda nfs, root: nfs.mknod(root, b"n", t.mknoddata3(t.ftype3.NF3FIFO, attributes())), t.ftype3.NF3FIFO),
        (lambda nfs, root: nfs.mknod(root, b"n", t.mknoddata3(t.ftype3.NF3SOCK, attributes())), t.ftype3.NF3SOCK),
    ],
    ids=["CREATE", "MKDIR", "SYMLINK", "MKNOD fifo", "MKNOD socket"],
)
def test_making_tells_of_the_new_file_and_of_its_directory(
    nfs: Nfs3Client, root: bytes, make: Any, kind: t.ftype3
) -> None:
    before = nfs.getattr(root)
    result = make(nfs, root)
    after = nfs.getattr(root)
    assert result.dir_wcc == t.wcc_data(weak(before), after)
    assert weak(before) != weak(after)
    assert result.obj_attributes.type is kind
    assert result.obj_attributes == nfs.getattr(made(result))
    with pytest.raises(Nfs3Error) as refused:
        make(nfs, root)
    assert refused.value.status is t.nfsstat3.NFS3ERR_EXIST
    assert refused.value.failure.dir_wcc == t.wcc_data(weak(after), after)


@pytest.mark.parametrize("kind", [t.ftype3.NF3CHR, t.ftype3.NF3BLK])
def test_devices_keep_their_numbers(nfs: Nfs3Client, root: bytes, kind: t.ftype3) -> None:
    what = t.mknoddata3(kind, t.devicedata3(attributes(mode=0o600), t.specdata3(2**32 - 1, 7)))
    assert nfs.getattr(made(nfs.mknod(root, b"n", what))).rdev == t.specdata3(2**32 - 1, 7)


@pytest.mark.parametrize("kind", [t.ftype3.NF3REG, t.ftype3.NF3DIR, t.ftype3.NF3LNK])
def test_mknod_makes_no_files_directories_or_links(nfs: Nfs3Client, root: bytes, kind: t.ftype3) -> None:
    with pytest.raises(Nfs3Error) as refused:
        nfs.mknod(root, b"n", t.mknoddata3(kind))
    assert refused.value.status is t.nfsstat3.NFS3ERR_BADTYPE
    assert refused.value.failure.dir_wcc.after == nfs.getattr(root)


def test_unchecked_create_truncates_what_is_there(nfs: Nfs3Client, root: bytes) -> None:
    file = made(nfs.create(root, b"f"))
    nfs.write(file, 0, b"some data")
    again = nfs.create(root, b"f", t.createhow3(UNCHECKED, attributes(size=4, mode=0o777)))
    assert again.obj == file
    assert isinstance(again.obj_attributes, t.fattr3)
    assert (again.obj_attributes.size, again.obj_attributes.mode) == (4, 0o644)
    assert again.obj_attributes == nfs.getattr(file)
    assert bytes(nfs.read(file, 0, 100).data) == b"some"


def test_exclusive_create_recognises_itself(nfs: Nfs3Client, root: bytes) -> None:
    first = nfs.create(root, b"f", t.createhow3(EXCLUSIVE, b"verifier"))
    assert nfs.create(root, b"f", t.createhow3(EXCLUSIVE, b"verifier")).obj == first.obj
    with pytest.raises(Nfs3Error, match="EXIST"):
        nfs.create(root, b"f", t.createhow3(EXCLUSIVE, b"another!"))


def test_setattr_tells_of_both_sides(nfs: Nfs3Client, root: bytes) -> None:
    file = made(nfs.create(root, b"f"))
    before = nfs.getattr(file)
    wanted = attributes(mode=0o4711, uid=5, gid=6, atime=t.nfstime3(1, 2), mtime=t.nfstime3(3, 4))
    done = nfs.setattr(file, wanted)
    after = nfs.getattr(file)
    assert done.obj_wcc == t.wcc_data(weak(before), after)
    # A new owner takes setuid away even if the same call sets it, as the Linux server does: `chown; chmod` sets it.
    assert (after.mode, after.uid, after.gid) == (0o711, 5, 6)
    assert nfs.setattr(file, attributes(mode=0o4711)).obj_wcc.after.mode == 0o4711
    assert (after.atime, after.mtime) == (t.nfstime3(1, 2), t.nfstime3(3, 4))
    assert after.ctime != before.ctime


def test_setattr_of_a_size_cuts_and_grows(nfs: Nfs3Client, root: bytes) -> None:
    file = made(nfs.create(root, b"f"))
    nfs.write(file, 0, b"abcdefgh")
    before = nfs.getattr(file)
    done = nfs.setattr(file, attributes(size=3))
    assert done.obj_wcc == t.wcc_data(weak(before), nfs.getattr(file))
    nfs.setattr(file, attributes(size=6))
    assert bytes(nfs.read(file, 0, 100).data) == b"abc\0\0\0"


def test_setattr_obeys_its_guard(nfs: Nfs3Client, root: bytes) -> None:
    file = made(nfs.create(root, b"f"))
    seen = nfs.getattr(file)
    nfs.setattr(file, attributes(mode=0o600), guard=seen.ctime)
    with pytest.raises(Nfs3Error) as refused:
        nfs.setattr(file, attributes(mode=0o666), guard=seen.ctime)
    assert refused.value.status is t.nfsstat3.NFS3ERR_NOT_SYNC
    now = nfs.getattr(file)
    assert now.mode == 0o600
    assert refused.value.failure.obj_wcc == t.wcc_data(weak(now), now)


def test_setattr_to_the_servers_time(world: World, nfs: Nfs3Client, root: bytes) -> None:
    file = made(nfs.create(root, b"f"))
    world.clock.advance(100)
    nfs.setattr(file, attributes(atime=t.time_how.SET_TO_SERVER_TIME))
    found = nfs.getattr(file)
    assert found.atime.seconds == world.clock.time_ns() // 10**9
    assert found.mtime.seconds == found.atime.seconds - 100


@pytest.mark.parametrize("is_directory", [False, True])
def test_removing(world: World, nfs: Nfs3Client, root: bytes, is_directory: bool) -> None:
    make, remove, wrong = (nfs.mkdir, nfs.rmdir, nfs.remove) if is_directory else (nfs.create, nfs.remove, nfs.rmdir)
    make(root, b"x")
    before = nfs.getattr(root)
    with pytest.raises(Nfs3Error) as refused:
        wrong(root, b"x")
    status = t.nfsstat3.NFS3ERR_ISDIR if is_directory else t.nfsstat3.NFS3ERR_NOTDIR
    assert refused.value.status is status
    assert refused.value.failure.dir_wcc == t.wcc_data(weak(before), before)
    done = remove(root, b"x")
    assert done.dir_wcc == t.wcc_data(weak(before), nfs.getattr(root))
    assert [type(effect) for effect in world.effects] == [Removed]
    with pytest.raises(Nfs3Error, match="NOENT"):
        remove(root, b"x")


def test_a_directory_with_entries_is_not_removed(nfs: Nfs3Client, root: bytes) -> None:
    nfs.create(made(nfs.mkdir(root, b"d")), b"f")
    with pytest.raises(Nfs3Error, match="NOTEMPTY"):
        nfs.rmdir(root, b"d")


def test_rename_between_directories_tells_of_both(nfs: Nfs3Client, root: bytes) -> None:
    one, two = made(nfs.mkdir(root, b"one")), made(nfs.mkdir(root, b"two"))
    file = made(nfs.create(one, b"f"))
    before_one, before_two = nfs.getattr(one), nfs.getattr(two)
    done = nfs.rename(one, b"f", two, b"g")
    assert done.fromdir_wcc == t.wcc_data(weak(before_one), nfs.getattr(one))
    assert done.todir_wcc == t.wcc_data(weak(before_two), nfs.getattr(two))
    assert nfs.lookup(two, b"g").object == file
    with pytest.raises(Nfs3Error) as refused:
        nfs.rename(one, b"f", two, b"h")
    assert refused.value.status is t.nfsstat3.NFS3ERR_NOENT
    assert refused.value.failure.fromdir_wcc.after == nfs.getattr(one)
    assert refused.value.failure.todir_wcc.after == nfs.getattr(two)


def test_rename_and_link_do_not_cross_shares(world: World, nfs: Nfs3Client, root: bytes) -> None:
    world.add_share("/other")
    other = world.root("/other")
    file = made(nfs.create(root, b"f"))
    for attempt in (lambda: nfs.rename(root, b"f", other, b"f"), lambda: nfs.link(file, other, b"f")):
        with pytest.raises(Nfs3Error, match="XDEV"):
            attempt()
    assert nfs.lookup(root, b"f").object == file


def test_link_tells_of_file_and_directory(nfs: Nfs3Client, root: bytes) -> None:
    file = made(nfs.create(root, b"f"))
    before = nfs.getattr(root)
    done = nfs.link(file, root, b"g")
    assert done.linkdir_wcc == t.wcc_data(weak(before), nfs.getattr(root))
    assert done.file_attributes == nfs.getattr(file)
    assert nfs.getattr(file).nlink == 2
    with pytest.raises(Nfs3Error) as refused:
        nfs.link(file, root, b"g")
    assert refused.value.status is t.nfsstat3.NFS3ERR_EXIST
    assert refused.value.failure.file_attributes == nfs.getattr(file)
    assert refused.value.failure.linkdir_wcc.after == nfs.getattr(root)


def test_a_symlink_of_too_long_a_target(nfs: Nfs3Client, root: bytes) -> None:
    with pytest.raises(Nfs3Error, match="NAMETOOLONG"):
        nfs.symlink(root, b"l", b"x" * 5000)


def test_failures_of_a_stale_directory_have_no_attributes(nfs: Nfs3Client, root: bytes) -> None:
    gone = made(nfs.mkdir(root, b"d"))
    nfs.rmdir(root, b"d")
    with pytest.raises(Nfs3Error) as refused:
        nfs.create(gone, b"f")
    assert refused.value.status is t.nfsstat3.NFS3ERR_STALE
    assert refused.value.failure.dir_wcc == t.wcc_data(None, None)


def test_a_user_may_not_do_what_only_the_owner_may(world: World, nfs: Nfs3Client, root: bytes) -> None:
    file = made(nfs.create(root, b"f"))
    with pytest.raises(Nfs3Error, match="NFS3ERR_PERM"):
        world.nfs(ALICE).setattr(file, attributes(mode=0o777))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        (
            "CREATE",
            lambda root: t.CREATE3args(t.diropargs3(root, b"n"), t.createhow3(t.createmode3.GUARDED, attributes())),
        ),
        ("MKDIR", lambda root: t.MKDIR3args(t.diropargs3(root, b"n"), attributes())),
        ("SYMLINK", lambda root: t.SYMLINK3args(t.diropargs3(root, b"n"), t.symlinkdata3(attributes(), b"t"))),
        ("MKNOD", lambda root: t.MKNOD3args(t.diropargs3(root, b"n"), t.mknoddata3(t.ftype3.NF3FIFO, attributes()))),
        ("REMOVE", lambda root: t.REMOVE3args(t.diropargs3(root, b"file"))),
        ("RMDIR", lambda root: t.RMDIR3args(t.diropargs3(root, b"dir"))),
        ("RENAME", lambda root: t.RENAME3args(t.diropargs3(root, b"file"), t.diropargs3(root, b"new"))),
    ],
)
def test_a_retransmission_gets_its_first_answer(world: World, root: bytes, name: str, arguments: Any) -> None:
    """[NFS-5]"""
    nfs = world.nfs()
    nfs.create(root, b"file")
    nfs.mkdir(root, b"dir")
    record = EXCHANGES[name].encode(4711, arguments(root), credential=nfs.transport.credential)
    replies = []
    for _ in range(2):
        nfs.transport.send_record(record)
        replies.append(nfs.transport.receive_record(4711))
    assert EXCHANGES[name].decode(replies[0], 4711).discriminant == t.nfsstat3.NFS3_OK
    assert replies[0] == replies[1]


def test_setattr_and_link_are_remembered_too(world: World, root: bytes) -> None:
    """[NFS-5]  LINK would answer EXIST, a guarded SETATTR would answer NOT_SYNC."""
    nfs = world.nfs()
    file = made(nfs.create(root, b"f"))
    guard = nfs.getattr(file).ctime
    for name, arguments in (
        ("SETATTR", t.SETATTR3args(file, attributes(mode=0o600), guard)),
        ("LINK", t.LINK3args(file, t.diropargs3(root, b"g"))),
    ):
        record = EXCHANGES[name].encode(99, arguments, credential=nfs.transport.credential)
        for _ in range(2):
            nfs.transport.send_record(record)
            result = EXCHANGES[name].decode(nfs.transport.receive_record(99), 99)
            assert result.discriminant == t.nfsstat3.NFS3_OK, name


def test_a_share_that_is_frozen_for_a_backup_puts_changes_off_and_lets_reads_go_on(
    world: World, nfs: Nfs3Client, root: bytes
) -> None:
    file = made(nfs.create(root, b"f"))
    nfs.write(file, 0, b"content")
    volume = next(iter(world.shares)).volume
    fifo = t.mknoddata3(t.ftype3.NF3FIFO, attributes())
    changes = {
        "SETATTR": lambda: nfs.setattr(file, attributes(mode=0o600)),
        "SETATTR of a size": lambda: nfs.setattr(file, attributes(size=1)),
        "WRITE": lambda: nfs.write(file, 0, b"x"),
        "CREATE": lambda: nfs.create(root, b"n"),
        "MKDIR": lambda: nfs.mkdir(root, b"n"),
        "SYMLINK": lambda: nfs.symlink(root, b"n", b"target"),
        "MKNOD": lambda: nfs.mknod(root, b"n", fifo),
        "RENAME": lambda: nfs.rename(root, b"f", root, b"g"),
        "LINK": lambda: nfs.link(file, root, b"n"),
        "RMDIR": lambda: nfs.rmdir(root, b"f"),
        "REMOVE": lambda: nfs.remove(root, b"f"),
    }
    volume.is_frozen = True
    before = nfs.getattr(root), nfs.getattr(file)
    for name, change in changes.items():
        with pytest.raises(Nfs3Error) as refused:
            change()
        assert refused.value.status is t.nfsstat3.NFS3ERR_JUKEBOX, name
    assert (nfs.getattr(root), nfs.getattr(file)) == before
    assert nfs.read(file, 0, 10).data == b"content"
    volume.is_frozen = False
    nfs.remove(root, b"f")
