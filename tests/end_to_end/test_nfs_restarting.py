"""[NFS-1]: what a restart must not undo: the verifier of an exclusive create, cookies, times to the nanosecond."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dittofs.client.nfs3 import Nfs3Error, attributes
from dittofs.protocols.nfs3 import types as t
from tests.end_to_end.server_process import ServerProcess

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "server") as running:
        yield running


def test_an_exclusive_create_is_recognised_after_a_crash(server: ServerProcess) -> None:
    """Its verifier is kept with the file: sent again it succeeds, another one finds the name taken."""
    how = t.createhow3(t.createmode3.EXCLUSIVE, b"verifier")
    with server.connect() as client:
        file = client.create(client.root, b"file", how).obj
    server.kill()
    server.start()
    with server.connect() as client:
        assert client.create(client.root, b"file", how).obj == file
        with pytest.raises(Nfs3Error, match="EXIST"):
            client.create(client.root, b"file", t.createhow3(t.createmode3.EXCLUSIVE, b"another!"))
        client.setattr(file, attributes(mode=0o640))
        with pytest.raises(Nfs3Error, match="EXIST"):
            client.create(client.root, b"file", how)


def test_a_listing_goes_on_after_a_restart(server: ServerProcess) -> None:
    """Cookies are places in the directory, not memories of the server."""
    names = {b"%d" % number for number in range(100)}
    with server.connect() as client:
        for name in names:
            client.create(client.root, name)
        first = client.readdir(client.root, count=1500)
        seen = [entry.name for entry in first.reply.entries]
    server.kill()
    server.start()
    with server.connect() as client:
        cookie, verifier = first.reply.entries[-1].cookie, first.cookieverf
        while True:
            part = client.readdir(client.root, cookie, verifier, count=1500)
            seen += [entry.name for entry in part.reply.entries]
            if part.reply.eof:
                break
            cookie = part.reply.entries[-1].cookie
    assert sorted(seen) == sorted(names | {b".", b".."})


def test_attributes_and_special_files_are_kept_to_the_nanosecond(server: ServerProcess) -> None:
    device = t.mknoddata3(t.ftype3.NF3CHR, t.devicedata3(attributes(mode=0o600), t.specdata3(1, 3)))
    with server.connect() as client:
        client.mknod(client.root, b"device", device)
        client.symlink(client.root, b"link", b"target")
        file = client.create(client.root, b"file").obj
        client.setattr(file, attributes(mode=0o2751, uid=1, gid=2, mtime=t.nfstime3(2**32 - 1, 999_999_999)))
        before = {bytes(entry.name): entry.name_attributes for entry in client.list_directory(client.root)}
    server.kill()
    server.start()
    with server.connect() as client:
        after = {bytes(entry.name): entry.name_attributes for entry in client.list_directory(client.root)}
        assert after == before
        assert after[b"file"].mtime == t.nfstime3(2**32 - 1, 999_999_999)
