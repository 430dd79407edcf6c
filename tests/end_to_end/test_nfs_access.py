"""[NFS-4]: who is who at a share, from where, and what a file server allows beyond the mode bits."""

import contextlib
from collections.abc import Iterator

import pytest

from dittofs.client.mount import MountRefused
from dittofs.client.nfs3 import Nfs3Error, attributes
from dittofs.protocols.mount.types import mountstat3
from dittofs.protocols.nfs3 import types as t
from dittofs.rpc.calling import CredentialsDenied, auth_sys
from dittofs.rpc.messages import NO_AUTH, auth_stat, opaque_auth
from tests.end_to_end.server_process import EMBEDDED, ROOT, MountedClient, ServerProcess

pytestmark = pytest.mark.slow

ALICE = auth_sys(uid=1000, gid=1000, groups=[2000, 0])
BOB = auth_sys(uid=1001, gid=1001)

SHARES = """
[[shares]]
name = "/none"
squash = "none"
[[shares]]
name = "/root"
squash = "root"
anonymous_uid = 111
anonymous_gid = 222
[[shares]]
name = "/all"
squash = "all"
anonymous_uid = 111
anonymous_gid = 222
[[shares]]
name = "/elsewhere"
squash = "none"
clients = ["127.0.1.0/24", "::1"]
[[shares]]
name = "/readonly"
squash = "none"
read_only = true
[[shares]]
name = "/open"
squash = "none"
security = ["sys", "none"]
anonymous_uid = 111
anonymous_gid = 222
[[shares]]
name = "/only-none"
security = ["none"]
[[shares]]
name = "/private"
squash = "none"
root_uid = 1000
root_gid = 2000
root_mode = 0o750
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    listen = 'listen = ["0.0.0.0", "::1"]'
    with ServerProcess(tmp_path_factory.mktemp("server"), EMBEDDED + SHARES, server=listen) as running:
        yield running


@contextlib.contextmanager
def refused_with(*statuses: t.nfsstat3) -> Iterator[None]:
    with pytest.raises(Nfs3Error) as refused:
        yield
    assert refused.value.status in statuses


ACCES, PERM, ROFS = t.nfsstat3.NFS3ERR_ACCES, t.nfsstat3.NFS3ERR_PERM, t.nfsstat3.NFS3ERR_ROFS


@pytest.mark.parametrize(
    ("share", "credential", "uid", "gid"),
    [
        ("/none", ROOT, 0, 0),
        ("/none", ALICE, 1000, 1000),
        ("/root", ROOT, 111, 222),
        ("/root", ALICE, 1000, 1000),
        ("/root", auth_sys(uid=1000, gid=0), 1000, 222),
        ("/all", ROOT, 111, 222),
        ("/all", ALICE, 111, 222),
        ("/open", NO_AUTH, 111, 222),
        ("/open", ALICE, 1000, 1000),
        ("/only-none", NO_AUTH, 65534, 65534),
    ],
)
def test_whom_a_share_takes_a_user_for(
    server: ServerProcess, share: str, credential: opaque_auth, uid: int, gid: int
) -> None:
    """The owner of a new file tells: squash none, root and all, anonymous ids, AUTH_NONE as the anonymous user."""
    with server.connect(share, credential=credential) as client:
        name = b"by-%d-%d-%d" % (uid, gid, len(list(client.list_directory(client.root))))
        made = client.create(client.root, name).obj_attributes
        assert (made.uid, made.gid) == (uid, gid)


def test_a_squashed_root_is_nobody_special(server: ServerProcess) -> None:
    with server.connect("/root", credential=ALICE) as alice, server.connect("/root") as root:
        file = alice.create(alice.root, b"alices", attributes(mode=0o600)).obj
        with refused_with(ACCES):
            root.read(file, 0, 10)
        with refused_with(PERM):
            root.setattr(file, attributes(uid=0))
        with refused_with(PERM):
            root.remove(root.root, b"alices")


def test_a_squashed_group_is_not_root_s_group(server: ServerProcess) -> None:
    """Group 0 among a user's groups is squashed as well."""
    with server.connect("/root", credential=ALICE) as alice:
        file = alice.create(alice.root, b"for group 0").obj
        with refused_with(PERM):
            alice.setattr(file, attributes(gid=0))


def test_only_the_networks_of_a_share_may_use_it(server: ServerProcess) -> None:
    """At MOUNT and at every call; IPv6 too."""
    with server.connect("/elsewhere", source="127.0.1.5") as allowed:
        handle = allowed.root
        assert allowed.getattr(handle).type is t.ftype3.NF3DIR
    with server.connect("/elsewhere", address="::1") as allowed:
        assert allowed.root == handle
    with pytest.raises(MountRefused) as refused:
        server.connect("/elsewhere", source="127.0.2.5")
    assert refused.value.status is mountstat3.MNT3ERR_ACCES
    with server.connect("/none", source="127.0.2.5") as stranger:
        for attempt in (
            lambda: stranger.getattr(handle),
            lambda: stranger.readdirplus(handle),
            lambda: stranger.create(handle, b"file"),
            lambda: stranger.fsinfo(handle),
        ):
            with pytest.raises(Nfs3Error) as denied:
                attempt()
            assert denied.value.status is ACCES
            assert "fattr3" not in repr(denied.value.failure), "a stranger hears nothing of the file"


def test_a_read_only_share_refuses_every_change(server: ServerProcess) -> None:
    with server.connect("/readonly") as client:
        root = client.root
        fifo = t.mknoddata3(t.ftype3.NF3FIFO, attributes())
        for attempt in (
            lambda: client.setattr(root, attributes(mode=0o777)),
            lambda: client.write(root, 0, b"x"),
            lambda: client.create(root, b"f"),
            lambda: client.mkdir(root, b"d"),
            lambda: client.symlink(root, b"l", b"t"),
            lambda: client.mknod(root, b"n", fifo),
            lambda: client.remove(root, b"f"),
            lambda: client.rmdir(root, b"d"),
            lambda: client.rename(root, b"f", root, b"g"),
            lambda: client.link(root, root, b"h"),
            lambda: client.commit(root),
        ):
            with refused_with(ROFS):
                attempt()
        assert [entry.name for entry in client.readdirplus(root).reply.entries] == [b".", b".."]
        assert client.access(root, 0x3F).access == 0x03, "read and lookup"


@pytest.mark.parametrize(("share", "credential"), [("/none", NO_AUTH), ("/only-none", ROOT)])
def test_a_flavour_that_a_share_does_not_allow_is_too_weak(
    server: ServerProcess, share: str, credential: opaque_auth
) -> None:
    """MOUNT tells the allowed ones, and every call is checked."""
    with server.connect(share, credential=credential) as client:
        for attempt in (lambda: client.getattr(client.root), lambda: client.create(client.root, b"file")):
            with pytest.raises(CredentialsDenied) as denied:
                attempt()
            assert denied.value.status is auth_stat.AUTH_TOOWEAK
        client.null()


@pytest.mark.parametrize(
    ("credential", "status"),
    [
        (opaque_auth(6, b"gss"), auth_stat.AUTH_TOOWEAK),
        (opaque_auth(1, b"not a credential"), auth_stat.AUTH_BADCRED),
        (opaque_auth(0, b"must be empty"), auth_stat.AUTH_BADCRED),
    ],
)
def test_credentials_that_cannot_be_believed(server: ServerProcess, credential: opaque_auth, status: auth_stat) -> None:
    with server.connect("/none") as client:
        client.transport.credential = credential
        with pytest.raises(CredentialsDenied) as denied:
            client.getattr(client.root)
        assert denied.value.status is status
        client.transport.credential = ROOT
        client.getattr(client.root)


class TestOwner:
    """What NFS servers allow because the client has checked at open."""

    @pytest.fixture
    def alice(self, server: ServerProcess) -> Iterator[MountedClient]:
        with server.connect("/none", credential=ALICE) as connected:
            name = b"alice-%d" % len(list(connected.list_directory(connected.root)))
            connected.root = bytes(connected.mkdir(connected.root, name, attributes(mode=0o777)).obj)
            yield connected

    @pytest.fixture
    def bob(self, server: ServerProcess) -> Iterator[MountedClient]:
        with server.connect("/none", credential=BOB) as connected:
            yield connected

    def test_may_read_and_write_whatever_the_mode(self, alice: MountedClient, bob: MountedClient) -> None:
        """git and tar write to files that they made with mode 0444."""
        file = bytes(alice.create(alice.root, b"file", attributes(mode=0o444)).obj)
        alice.write(file, 0, b"data")
        alice.setattr(file, attributes(mode=0o000))
        alice.write(file, 4, b"more")
        assert bytes(alice.read(file, 0, 100).data) == b"datamore"
        assert alice.access(file, 0x0D).access == 0, "but ACCESS tells what the mode says"
        alice.setattr(file, attributes(size=2))
        with refused_with(ACCES):
            bob.read(file, 0, 10)
        with refused_with(ACCES):
            bob.write(file, 0, b"x")

    def test_execute_permits_reading(self, alice: MountedClient, bob: MountedClient) -> None:
        file = bytes(alice.create(alice.root, b"program", attributes(mode=0o711)).obj)
        alice.write(file, 0, b"#!/bin/sh")
        assert bytes(bob.read(file, 0, 2).data) == b"#!"
        assert bob.access(file, 0x21).access == 0x20

    def test_a_group_member_has_the_group_s_rights(self, server: ServerProcess, alice: MountedClient) -> None:
        file = bytes(alice.create(alice.root, b"file", attributes(mode=0o640)).obj)
        alice.setattr(file, attributes(gid=2000))
        member = auth_sys(uid=3000, gid=3000, groups=[1, 2, 2000])
        with server.connect("/none", credential=member) as other:
            assert other.read(file, 0, 1).count == 0
            with refused_with(ACCES):
                other.write(file, 0, b"x")

    def test_the_sticky_bit(self, alice: MountedClient, bob: MountedClient) -> None:
        alice.setattr(alice.root, attributes(mode=0o1777))
        alice.create(alice.root, b"alices")
        bob.create(alice.root, b"bobs")
        with refused_with(PERM):
            bob.remove(alice.root, b"alices")
        with refused_with(PERM):
            bob.rename(alice.root, b"alices", alice.root, b"stolen")
        bob.rename(alice.root, b"bobs", alice.root, b"still bobs")
        alice.remove(alice.root, b"still bobs")

    def test_a_directory_that_may_not_be_searched(self, server: ServerProcess, bob: MountedClient) -> None:
        with server.connect("/private", credential=ALICE) as owner, server.connect("/private", credential=BOB) as other:
            owner.create(owner.root, b"file", attributes(mode=0o666))
            for attempt in (
                lambda: other.lookup(owner.root, b"file"),
                lambda: other.readdir(owner.root),
                lambda: other.create(owner.root, b"other"),
                lambda: other.remove(owner.root, b"file"),
            ):
                with refused_with(ACCES):
                    attempt()

    def test_setgid_goes_when_the_owner_is_not_of_the_group(self, server: ServerProcess, alice: MountedClient) -> None:
        with server.connect("/none") as root:
            file = bytes(root.create(alice.root, b"file", attributes(uid=1000, gid=7, mode=0o755)).obj)
        alice.setattr(file, attributes(mode=0o2755))
        assert alice.getattr(file).mode == 0o755
