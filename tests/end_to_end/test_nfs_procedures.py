"""[NFS-1]: the 22 procedures over real sockets, with what they tell of before and after."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from dittofs.client.nfs3 import NO_VERIFIER, Nfs3Error, attributes
from dittofs.client.transports import UdpTransport
from dittofs.protocols.nfs3 import types as t
from tests.end_to_end.server_process import MountedClient, ServerProcess

pytestmark = pytest.mark.slow

GIB = 2**30


def weak(found: t.fattr3) -> t.wcc_attr:
    return t.wcc_attr(found.size, found.mtime, found.ctime)


@contextlib.contextmanager
def refused_with(status: t.nfsstat3) -> Iterator[None]:
    with pytest.raises(Nfs3Error) as refused:
        yield
    assert refused.value.status is status


@contextlib.contextmanager
def changing(client: MountedClient, *files: bytes) -> Iterator[list[t.wcc_data]]:
    """What the block puts into the list must be the true WCC data of these files."""
    told: list[t.wcc_data] = []
    before = [client.getattr(file) for file in files]
    yield told
    for old, data, file in zip(before, told, files, strict=True):
        new = client.getattr(file)
        data.after.used = new.used  # an estimate until the data is on the disk
        assert data == t.wcc_data(weak(old), new)
    assert all(old.ctime != data.after.ctime for old, data in zip(before, told, strict=True))


def file_in(client: MountedClient, name: bytes = b"file", data: bytes = b"") -> bytes:
    file = bytes(client.create(client.root, name).obj)
    if data:
        client.write(file, 0, data)
    return file


class TestEveryProcedure:
    """Each by its name in the RFC; success with attributes or WCC data that are those of GETATTR."""

    def test_null(self, client: MountedClient) -> None:
        client.null()

    def test_getattr(self, client: MountedClient) -> None:
        found = client.getattr(file_in(client, data=b"12345"))
        assert (found.type, found.size, found.nlink, found.mode) == (t.ftype3.NF3REG, 5, 1, 0o644)
        assert found.fsid == client.getattr(client.root).fsid

    def test_setattr(self, client: MountedClient) -> None:
        file = file_in(client, data=b"12345")
        with changing(client, file) as told:
            new = attributes(mode=0o640, uid=7, gid=8, size=3, atime=t.nfstime3(5, 999_999_999), mtime=t.nfstime3(6, 1))
            told.append(client.setattr(file, new).obj_wcc)
        found = client.getattr(file)
        assert (found.mode, found.uid, found.gid, found.size) == (0o640, 7, 8, 3)
        assert (found.atime, found.mtime) == (t.nfstime3(5, 999_999_999), t.nfstime3(6, 1)), "nanoseconds"
        with refused_with(t.nfsstat3.NFS3ERR_NOT_SYNC):
            client.setattr(file, attributes(mode=0o600), guard=t.nfstime3(1, 1))

    def test_lookup(self, client: MountedClient) -> None:
        file = file_in(client)
        found = client.lookup(client.root, b"file")
        assert (found.object, found.obj_attributes) == (file, client.getattr(file))
        assert found.dir_attributes == client.getattr(client.root)
        assert client.lookup(client.root, b".").object == client.root
        with pytest.raises(Nfs3Error) as refused:
            client.lookup(client.root, b"missing")
        assert refused.value.failure.dir_attributes == client.getattr(client.root)

    def test_access(self, client: MountedClient) -> None:
        granted = client.access(client.root, 0x3F)
        assert granted.access == 0x1F, "a directory is not executed"
        assert granted.obj_attributes == client.getattr(client.root)

    def test_symlink_and_readlink(self, client: MountedClient) -> None:
        with changing(client, client.root) as told:
            made = client.symlink(client.root, b"link", b"../some where\xff")
            told.append(made.dir_wcc)
        found = client.readlink(bytes(made.obj))
        assert (found.data, found.symlink_attributes) == (b"../some where\xff", client.getattr(bytes(made.obj)))
        with refused_with(t.nfsstat3.NFS3ERR_INVAL):
            client.readlink(client.root)

    def test_read_and_write(self, client: MountedClient) -> None:
        file = file_in(client)
        with changing(client, file) as told:
            done = client.write(file, 3, b"data")
            told.append(done.file_wcc)
        assert (done.count, done.committed) == (4, t.stable_how.FILE_SYNC)
        found = client.read(file, 0, 100)
        assert (bytes(found.data), found.count, found.eof) == (b"\0\0\0data", 7, True)
        assert found.file_attributes == client.getattr(file)
        assert client.read(file, 0, 7).eof
        assert not client.read(file, 0, 6).eof
        assert client.read(file, 2**63, 10).count == 0
        with refused_with(t.nfsstat3.NFS3ERR_FBIG):
            client.write(file, 2**64 - 2, b"data")

    def test_create(self, client: MountedClient) -> None:
        with changing(client, client.root) as told:
            made = client.create(client.root, b"new", attributes(mode=0o4751, size=10))
            told.append(made.dir_wcc)
        assert made.obj_attributes == client.getattr(bytes(made.obj))
        assert (made.obj_attributes.mode, made.obj_attributes.size) == (0o4751, 10)
        with refused_with(t.nfsstat3.NFS3ERR_EXIST):
            client.create(client.root, b"new")

    def test_mkdir_and_rmdir(self, client: MountedClient) -> None:
        links = client.getattr(client.root).nlink
        with changing(client, client.root) as told:
            told.append(client.mkdir(client.root, b"directory").dir_wcc)
        assert client.getattr(client.root).nlink == links + 1
        with changing(client, client.root) as told:
            told.append(client.rmdir(client.root, b"directory").dir_wcc)
        assert client.getattr(client.root).nlink == links

    @pytest.mark.parametrize("kind", [t.ftype3.NF3CHR, t.ftype3.NF3BLK, t.ftype3.NF3FIFO, t.ftype3.NF3SOCK])
    def test_mknod(self, client: MountedClient, kind: t.ftype3) -> None:
        is_device = kind in (t.ftype3.NF3CHR, t.ftype3.NF3BLK)
        numbers = t.specdata3(4095, 2**20 - 1)
        what = t.mknoddata3(kind, t.devicedata3(attributes(mode=0o660), numbers) if is_device else attributes())
        with changing(client, client.root) as told:
            made = client.mknod(client.root, b"special", what)
            told.append(made.dir_wcc)
        assert made.obj_attributes == client.getattr(bytes(made.obj))
        assert (made.obj_attributes.type, made.obj_attributes.rdev) == (
            kind,
            numbers if is_device else t.specdata3(0, 0),
        )

    def test_remove(self, client: MountedClient) -> None:
        file = file_in(client)
        with changing(client, client.root) as told:
            told.append(client.remove(client.root, b"file").dir_wcc)
        with refused_with(t.nfsstat3.NFS3ERR_STALE):
            client.getattr(file)

    def test_rename(self, client: MountedClient) -> None:
        one = bytes(client.mkdir(client.root, b"one").obj)
        two = bytes(client.mkdir(client.root, b"two").obj)
        file, replaced = bytes(client.create(one, b"f").obj), bytes(client.create(two, b"g").obj)
        with changing(client, one, two) as told:
            done = client.rename(one, b"f", two, b"g")
            told += [done.fromdir_wcc, done.todir_wcc]
        assert client.lookup(two, b"g").object == file
        with refused_with(t.nfsstat3.NFS3ERR_STALE):
            client.getattr(replaced)
        with refused_with(t.nfsstat3.NFS3ERR_INVAL):
            client.rename(client.root, b"one", one, b"inside itself")

    def test_link(self, client: MountedClient) -> None:
        file = file_in(client, data=b"shared")
        with changing(client, client.root) as told:
            done = client.link(file, client.root, b"second")
            told.append(done.linkdir_wcc)
        assert done.file_attributes == client.getattr(file)
        assert client.getattr(file).nlink == 2
        client.remove(client.root, b"file")
        assert bytes(client.read(bytes(client.lookup(client.root, b"second").object), 0, 10).data) == b"shared"

    def test_readdir(self, client: MountedClient) -> None:
        file = file_in(client)
        found = client.readdir(client.root)
        assert {entry.name for entry in found.reply.entries} == {b".", b"..", b"file"}
        assert {entry.fileid for entry in found.reply.entries if entry.name == b"file"} == {client.getattr(file).fileid}
        assert found.reply.eof
        assert found.dir_attributes == client.getattr(client.root)

    def test_readdirplus(self, client: MountedClient) -> None:
        file = file_in(client)
        (entry,) = [entry for entry in client.readdirplus(client.root).reply.entries if entry.name == b"file"]
        assert (entry.name_handle, entry.name_attributes) == (file, client.getattr(file))

    def test_fsstat(self, client: MountedClient) -> None:
        found = client.fsstat(client.root)
        assert found.tbytes >= found.fbytes >= found.abytes > 0
        assert found.obj_attributes == client.getattr(client.root)

    def test_fsinfo(self, client: MountedClient) -> None:
        """Tells the truth: what it promises can be done, and not more."""
        found = client.fsinfo(client.root)
        file = file_in(client)
        data = bytes(found.wtmax)
        assert client.write(file, 0, data, t.stable_how.UNSTABLE).count == found.wtmax
        assert client.read(file, 0, found.rtmax).count == found.rtmax == len(data)
        client.write(file, found.maxfilesize - 1, b"x")
        assert client.getattr(file).size == found.maxfilesize
        with refused_with(t.nfsstat3.NFS3ERR_FBIG):
            client.write(file, found.maxfilesize, b"x")
        assert found.properties == t.FSF3_LINK | t.FSF3_SYMLINK | t.FSF3_HOMOGENEOUS | t.FSF3_CANSETTIME

    def test_pathconf(self, client: MountedClient) -> None:
        found = client.pathconf(client.root)
        client.create(client.root, b"n" * found.name_max)
        with refused_with(t.nfsstat3.NFS3ERR_NAMETOOLONG):
            client.create(client.root, b"n" * (found.name_max + 1))
        assert (found.no_trunc, found.chown_restricted) == (True, True)
        assert (found.case_insensitive, found.case_preserving) == (False, True)
        assert found.linkmax > 1000

    def test_commit(self, client: MountedClient) -> None:
        file = file_in(client)
        done = client.write(file, 0, b"data", t.stable_how.UNSTABLE)
        committed = client.commit(file)
        assert committed.verf == done.verf
        assert committed.file_wcc.after == client.getattr(file)


class TestNames:
    @pytest.mark.parametrize(
        "name", [b"\xff\xfe\x80", b"new\nline", b" ", b"-rf", "Straße ☃".encode(), b"..." * 85], ids=repr
    )
    def test_a_name_is_any_bytes(self, client: MountedClient, name: bytes) -> None:
        file = file_in(client, name)
        assert client.lookup(client.root, name).object == file
        assert name in {entry.name for entry in client.list_directory(client.root)}
        client.remove(client.root, name)

    @pytest.mark.parametrize("name", [b"", b"a/b", b"/", b"nul\0"], ids=repr)
    def test_but_not_these(self, client: MountedClient, name: bytes) -> None:
        for attempt in (client.create, client.mkdir):
            with refused_with(t.nfsstat3.NFS3ERR_ACCES):
                attempt(client.root, name)

    @pytest.mark.parametrize("size", [256, 5000, 60_000])
    def test_a_name_is_at_most_255_bytes(self, client: MountedClient, size: int) -> None:
        name = b"n" * size
        attempts: list[Callable[[], object]] = [
            lambda: client.create(client.root, name),
            lambda: client.mkdir(client.root, name),
            lambda: client.symlink(client.root, name, b"target"),
            lambda: client.mknod(client.root, name, t.mknoddata3(t.ftype3.NF3FIFO, attributes())),
            lambda: client.lookup(client.root, name),
            lambda: client.remove(client.root, name),
            lambda: client.rmdir(client.root, name),
            lambda: client.rename(client.root, name, client.root, b"to"),
            lambda: client.rename(client.root, b"file", client.root, name),
            lambda: client.link(file, client.root, name),
        ]
        file = file_in(client)
        for attempt in attempts:
            with refused_with(t.nfsstat3.NFS3ERR_NAMETOOLONG):
                attempt()


class TestDirectories:
    def test_cookies_stay_valid_while_entries_come_and_go(self, client: MountedClient) -> None:
        """Who is there all the time is seen exactly once, however the rest changes."""
        staying = {b"stay-%d" % number for number in range(150)}
        going = [b"go-%d" % number for number in range(150)]
        for name in (*staying, *going):
            client.create(client.root, name)
        seen: list[bytes] = []
        cookie, verifier, new = 0, NO_VERIFIER, 0
        while True:
            part = client.readdirplus(client.root, cookie, verifier, maxcount=2000)
            seen += [entry.name for entry in part.reply.entries]
            if part.reply.eof:
                break
            cookie, verifier = part.reply.entries[-1].cookie, part.cookieverf
            if going:
                client.remove(client.root, going.pop())
                client.create(client.root, b"new-%d" % new)
                new += 1
        assert sorted(name for name in seen if name.startswith(b"stay-")) == sorted(staying)
        assert len(seen) == len(set(seen))

    def test_a_removed_entry_keeps_its_place(self, client: MountedClient) -> None:
        """A listing goes on behind an entry that is not there any more."""
        for number in range(40):
            client.create(client.root, b"%d" % number)
        listed = client.readdir(client.root).reply.entries
        for entry in listed[2:]:
            client.remove(client.root, entry.name)
        assert client.readdir(client.root, listed[20].cookie, NO_VERIFIER).reply.eof

    def test_counts_are_kept_to(self, client: MountedClient) -> None:
        for number in range(60):
            client.create(client.root, b"a name of some length %d" % number)
        for count in (400, 1000, 4000):
            part = client.readdir(client.root, count=count)
            assert not part.reply.eof or count == 4000
            assert len(part.reply.entries) > 1
        with refused_with(t.nfsstat3.NFS3ERR_TOOSMALL):
            client.readdir(client.root, count=20)
        with refused_with(t.nfsstat3.NFS3ERR_BAD_COOKIE):
            client.readdir(client.root, 5, b"not ours")

    def test_a_setgid_directory_hands_its_group_down(self, either: ServerProcess, client: MountedClient) -> None:
        shared = bytes(client.mkdir(client.root, b"shared", attributes(mode=0o2777, gid=4242)).obj)
        client.setattr(shared, attributes(mode=0o2777, gid=4242))
        file = client.create(shared, b"file").obj_attributes
        directory = client.mkdir(shared, b"directory").obj_attributes
        assert (file.gid, directory.gid) == (4242, 4242)
        assert directory.mode & 0o2000


class TestWriting:
    def test_sizes_beyond_4_gib(self, client: MountedClient) -> None:
        """64 bits, and nothing stored for the hole."""
        file = file_in(client)
        for offset in (5 * GIB, 2**40 + 1):
            client.write(file, offset, b"far out")
            assert bytes(client.read(file, offset - 2, 100).data) == b"\0\0far out"
        found = client.getattr(file)
        assert found.size == 2**40 + 8
        assert found.used < GIB, "sparse"
        client.setattr(file, attributes(size=5 * GIB + 3))
        assert bytes(client.read(file, 5 * GIB, 100).data) == b"far"
        assert client.read(file, 4 * GIB, 8).data == bytes(8)

    @pytest.mark.parametrize("how", list(t.stable_how))
    def test_how_stable(self, client: MountedClient, how: t.stable_how) -> None:
        file = file_in(client)
        done = client.write(file, 0, b"data", how)
        assert done.committed >= how
        assert client.write(file, 4, b"more", how).verf == done.verf
        assert bytes(client.read(file, 0, 100).data) == b"datamore"

    def test_writing_takes_setuid_and_setgid_away(self, client: MountedClient) -> None:
        """[NFS-4]"""
        file = file_in(client)
        client.setattr(file, attributes(mode=0o6755))
        client.write(file, 0, b"x")
        assert client.getattr(file).mode == 0o755


class TestTransports:
    def test_ipv6(self, either: ServerProcess) -> None:
        with either.connect(address="::1") as client:
            assert client.getattr(client.root).type is t.ftype3.NF3DIR

    def test_sizes_fit_a_datagram_over_udp(self, either: ServerProcess) -> None:
        """[NFS-6]: what FSINFO names, and what a READ and a listing of everything send."""
        with either.connect(over=UdpTransport) as client, either.connect() as other:
            root = bytes(other.mkdir(other.root, b"over udp").obj)
            file = bytes(client.create(root, b"file").obj)
            info = client.fsinfo(root)
            assert info.rtmax == info.wtmax == 32_768
            assert client.write(file, 0, b"y" * 40_000).count == info.wtmax
            other.write(file, 0, b"x" * 100_000)
            assert client.read(file, 0, 100_000).count == info.rtmax
            for number in range(600):
                other.create(root, b"%0200d" % number)
            names = [entry.name for entry in client.list_directory(root)]
            assert len(names) == len(set(names)) == 603
            assert len(client.readdirplus(root, dircount=65_536, maxcount=65_536).reply.entries) < 603
