"""[NFS-7]: a handle is ours or it is not, and what it names does not change."""

from collections.abc import Iterator

import pytest

from dittofs.client.nfs3 import Nfs3Error
from dittofs.protocols.nfs3.types import nfsstat3
from tests.end_to_end.server_process import EMBEDDED, MountedClient, ServerProcess

pytestmark = pytest.mark.slow

SHARES = '[[shares]]\nname = "/one"\nsquash = "none"\n[[shares]]\nname = "/two"\nsquash = "none"\n'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server"), EMBEDDED + SHARES) as running:
        yield running


@pytest.fixture
def one(server: ServerProcess) -> Iterator[MountedClient]:
    with server.connect("/one") as connected:
        yield connected


def status_of(client: MountedClient, handle: bytes) -> nfsstat3:
    with pytest.raises(Nfs3Error) as refused:
        client.getattr(handle)
    return refused.value.status


def test_a_wrong_length_or_version_is_a_bad_handle(one: MountedClient) -> None:
    for handle in (b"", b"x", one.root[:-1], one.root + b"\0", bytes(64), b"\x02" + one.root[1:]):
        assert status_of(one, handle) is nfsstat3.NFS3ERR_BADHANDLE


def test_anything_else_that_is_not_ours_is_stale(one: MountedClient) -> None:
    """Every single byte counts: the share, the file and the tag."""
    for position in range(1, len(one.root)):
        handle = bytearray(one.root)
        handle[position] ^= 1
        assert status_of(one, bytes(handle)) is nfsstat3.NFS3ERR_STALE, position


def test_handles_are_small_and_differ_between_shares(server: ServerProcess, one: MountedClient) -> None:
    with server.connect("/two") as two:
        assert len(one.root) <= 64
        assert one.root != two.root
        assert one.getattr(one.root).fsid != two.getattr(two.root).fsid
        with pytest.raises(Nfs3Error, match="XDEV"):
            one.rename(one.root, b"a", two.root, b"b")


def test_a_removed_file_is_stale_and_its_id_is_gone(one: MountedClient) -> None:
    ids = set()
    for _ in range(20):
        file = bytes(one.create(one.root, b"again").obj)
        ids.add(one.getattr(file).fileid)
        one.remove(one.root, b"again")
        assert status_of(one, file) is nfsstat3.NFS3ERR_STALE
    assert len(ids) == 20
    assert 0 not in ids
