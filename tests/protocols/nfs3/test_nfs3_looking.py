"""The procedures that only look: GETATTR, LOOKUP, ACCESS, READLINK, FSSTAT, FSINFO, PATHCONF [NFS-1]."""

import pytest

from dittofs.client.nfs3 import Nfs3Client, Nfs3Error, attributes
from dittofs.protocols.nfs3 import types as t
from tests.protocols.world import ALICE, CAPACITY, World


def test_null_answers_nothing(nfs: Nfs3Client) -> None:
    nfs.null()


def test_getattr_of_a_fresh_root(nfs: Nfs3Client, root: bytes) -> None:
    found = nfs.getattr(root)
    assert found.type is t.ftype3.NF3DIR
    assert (found.mode, found.nlink, found.uid, found.gid) == (0o1777, 2, 0, 0)
    assert found.fileid != 0


def test_lookup_tells_of_file_and_directory(nfs: Nfs3Client, root: bytes) -> None:
    made = nfs.create(root, b"f")
    found = nfs.lookup(root, b"f")
    assert found.object == made.obj
    assert found.obj_attributes == made.obj_attributes
    assert found.dir_attributes == made.dir_wcc.after == nfs.getattr(root)


def test_lookup_of_self_and_parent(nfs: Nfs3Client, root: bytes) -> None:
    below = nfs.mkdir(root, b"d").obj
    assert below is not None
    assert nfs.lookup(below, b".").object == below
    assert nfs.lookup(below, b"..").object == root
    assert nfs.lookup(root, b"..").object == root


@pytest.mark.parametrize(
    ("name", "status"),
    [
        (b"missing", t.nfsstat3.NFS3ERR_NOENT),
        (b"x" * 256, t.nfsstat3.NFS3ERR_NAMETOOLONG),
        (b"x" * 60_000, t.nfsstat3.NFS3ERR_NAMETOOLONG),
    ],
    ids=["missing", "256 bytes", "60000 bytes"],
)
def test_lookup_that_fails_tells_of_the_directory(
    nfs: Nfs3Client, root: bytes, name: bytes, status: t.nfsstat3
) -> None:
    with pytest.raises(Nfs3Error) as refused:
        nfs.lookup(root, name)
    assert refused.value.status is status
    assert refused.value.failure.dir_attributes == nfs.getattr(root)


def test_lookup_in_a_file(nfs: Nfs3Client, root: bytes) -> None:
    file = nfs.create(root, b"f").obj
    assert file is not None
    with pytest.raises(Nfs3Error, match="NOTDIR"):
        nfs.lookup(file, b"x")


def test_a_name_of_255_bytes_of_any_kind(nfs: Nfs3Client, root: bytes) -> None:
    name = bytes(byte for byte in range(1, 256) if byte != ord("/")) + b"!"
    assert len(name) == 255
    assert nfs.create(root, name).obj == nfs.lookup(root, name).object


def test_access_is_what_the_mode_says(world: World, nfs: Nfs3Client, root: bytes) -> None:
    made = nfs.create(root, b"f", attributes(mode=0o754, uid=1000, gid=2000)).obj
    assert made is not None
    everything = 0x3F
    granted = world.nfs(ALICE).access(made, everything)
    assert granted.access == t.ACCESS3_READ | t.ACCESS3_MODIFY | t.ACCESS3_EXTEND | t.ACCESS3_EXECUTE
    assert granted.obj_attributes == nfs.getattr(made)
    assert world.nfs(ALICE).access(made, t.ACCESS3_READ).access == t.ACCESS3_READ


def test_access_of_a_read_only_share_grants_no_change(world: World) -> None:
    world.add_share("/ro", read_only=True)
    granted = world.nfs().access(world.root("/ro"), 0x3F).access
    assert granted == t.ACCESS3_READ | t.ACCESS3_LOOKUP


def test_readlink(nfs: Nfs3Client, root: bytes) -> None:
    link = nfs.symlink(root, b"l", b"../anywhere").obj
    assert link is not None
    found = nfs.readlink(link)
    assert found.data == b"../anywhere"
    assert found.symlink_attributes == nfs.getattr(link)


def test_readlink_of_a_file_tells_its_attributes(nfs: Nfs3Client, root: bytes) -> None:
    file = nfs.create(root, b"f").obj
    assert file is not None
    with pytest.raises(Nfs3Error) as refused:
        nfs.readlink(file)
    assert refused.value.status is t.nfsstat3.NFS3ERR_INVAL
    assert refused.value.failure.symlink_attributes == nfs.getattr(file)


def test_fsstat_is_the_content_stores_truth(nfs: Nfs3Client, root: bytes) -> None:
    before = nfs.fsstat(root)
    assert before.tbytes == CAPACITY
    file = nfs.create(root, b"f").obj
    assert file is not None
    nfs.write(file, 0, bytes(range(256)) * 4096)
    after = nfs.fsstat(root)
    assert before.abytes - after.abytes >= 1_048_576
    assert before.fbytes - after.fbytes >= 1_048_576


def test_fsinfo_over_tcp(nfs: Nfs3Client, root: bytes) -> None:
    found = nfs.fsinfo(root)
    assert (found.rtmax, found.wtmax) == (1_048_576, 1_048_576)
    assert found.maxfilesize == 2**63 - 1
    assert found.time_delta == t.nfstime3(0, 1)
    assert found.properties == t.FSF3_LINK | t.FSF3_SYMLINK | t.FSF3_HOMOGENEOUS | t.FSF3_CANSETTIME


def test_fsinfo_over_udp_promises_what_fits_a_datagram(world: World, root: bytes) -> None:
    """[NFS-6]"""
    found = world.nfs(transport="udp").fsinfo(root)
    assert found.rtmax == found.rtpref == found.wtmax == found.wtpref == 32_768
    assert found.dtpref <= 32_768


def test_pathconf(nfs: Nfs3Client, root: bytes) -> None:
    found = nfs.pathconf(root)
    assert (found.linkmax, found.name_max) == (2**31 - 1, 255)
    assert (found.no_trunc, found.chown_restricted, found.case_insensitive, found.case_preserving) == (
        True,
        True,
        False,
        True,
    )


@pytest.mark.parametrize("handle", [b"", b"short", b"\x02" + bytes(32), bytes(64)], ids=["0", "5", "version 2", "64"])
def test_a_handle_of_wrong_length_or_version_is_bad(nfs: Nfs3Client, handle: bytes) -> None:
    """[NFS-7]"""
    with pytest.raises(Nfs3Error, match="BADHANDLE"):
        nfs.getattr(handle)


@pytest.mark.parametrize(
    "position", [1, 8, 9, 16, 17, 32], ids=["share", "share end", "file", "file end", "tag", "tag end"]
)
def test_a_handle_that_was_tampered_with_is_stale(nfs: Nfs3Client, root: bytes, position: int) -> None:
    """[NFS-7]"""
    forged = bytearray(root)
    forged[position] ^= 1
    with pytest.raises(Nfs3Error, match="STALE"):
        nfs.getattr(bytes(forged))


def test_the_handle_of_a_removed_file_is_stale(nfs: Nfs3Client, root: bytes) -> None:
    """[NFS-7]"""
    file = nfs.create(root, b"f").obj
    assert file is not None
    nfs.getattr(file)
    nfs.remove(root, b"f")
    with pytest.raises(Nfs3Error, match="STALE"):
        nfs.getattr(file)


def test_a_handle_stays_valid_over_a_rename(nfs: Nfs3Client, root: bytes) -> None:
    """[NFS-7]"""
    file = nfs.create(root, b"f").obj
    assert file is not None
    nfs.rename(root, b"f", nfs.mkdir(root, b"d").obj or b"", b"g")
    assert nfs.getattr(file).nlink == 1
