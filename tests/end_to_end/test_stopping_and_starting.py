"""The server's life: what a stop, a kill and a start keep and change."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dittofs.client.nfs3 import EXCHANGES, Nfs3Error, attributes
from dittofs.protocols.nfs3.types import CREATE3args, createhow3, createmode3, diropargs3, nfsstat3, stable_how
from dittofs.rpc.records import frame
from tests.end_to_end.server_process import MEMORY, ONE_SHARE, ServerProcess

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "server") as running:
        yield running


@pytest.mark.parametrize("end", [ServerProcess.kill, ServerProcess.terminate])
def test_what_was_acknowledged_as_stable_survives(server: ServerProcess, end: object) -> None:
    """[STORE-3]: over a kill and over a clean stop."""
    assert callable(end)
    with server.connect() as client:
        file = client.create(client.root, b"file").obj
        client.write(file, 0, b"stable")
        unstable = client.write(file, 6, b" and committed", stable_how.UNSTABLE)
        assert client.commit(file).verf == unstable.verf
    end(server)
    assert server.check().returncode == 0
    server.start()
    with server.connect() as client:
        found = client.lookup(client.root, b"file")
        assert found.object == file
        assert client.read(file, 0, 100).data == b"stable and committed"


def test_handles_stay_valid_over_rename_and_restart(server: ServerProcess) -> None:
    """[NFS-7]: and name the same file afterwards."""
    with server.connect() as client:
        directory = client.mkdir(client.root, b"directory").obj
        file = client.create(client.root, b"before").obj
        fileid = client.getattr(file).fileid
        client.rename(client.root, b"before", directory, b"after")
        assert client.getattr(file).fileid == fileid
        root = client.root
    server.kill()
    server.start()
    with server.connect() as client:
        assert client.root == root
        assert client.getattr(file).fileid == fileid
        assert client.lookup(directory, b"after").object == file


def test_file_ids_are_not_used_again_after_a_crash(server: ServerProcess) -> None:
    """[NFS-7]: also those of files that were removed."""
    seen = set()
    for _ in range(3):
        with server.connect() as client:
            for number in range(10):
                made = client.create(client.root, b"%d" % number)
                fileid = client.getattr(made.obj).fileid
                assert fileid != 0
                assert fileid not in seen
                seen.add(fileid)
                client.remove(client.root, b"%d" % number)
        server.kill()
        server.start()


def test_the_write_verifier_changes_at_each_start(server: ServerProcess) -> None:
    """[NFS-1]: so that clients send again what was not committed."""
    verifiers = set()
    for end in (server.kill, server.terminate, server.kill):
        with server.connect() as client:
            file = client.create(client.root, b"file%d" % len(verifiers)).obj
            written = client.write(file, 0, b"data", stable_how.UNSTABLE)
            assert client.commit(file).verf == written.verf, "one verifier for all of a run"
            verifiers.add(bytes(written.verf))
        end()
        server.start()
    assert len(verifiers) == 3


def test_handles_of_a_memory_store_are_stale_after_a_restart(tmp_path: Path) -> None:
    """[NFS-7]: and never another file."""
    with ServerProcess(tmp_path, MEMORY + ONE_SHARE) as server:
        with server.connect() as client:
            handles = [client.root, *(client.create(client.root, b"%d" % number).obj for number in range(5))]
        server.kill()
        server.start()
        with server.connect() as client:
            for number in range(5):
                client.create(client.root, b"%d" % number)
            for handle in handles:
                with pytest.raises(Nfs3Error) as refused:
                    client.getattr(handle)
                assert refused.value.status == nfsstat3.NFS3ERR_STALE


def test_a_clean_stop_answers_what_is_under_way(server: ServerProcess) -> None:
    """Calls that were read before SIGTERM are answered, and what they did is kept."""
    create = EXCHANGES["CREATE"]
    how = createhow3(createmode3.GUARDED, attributes(mode=0o644))
    names = [b"%d" % number for number in range(50)]
    with server.connect() as client:
        calls = [
            create.encode(xid, CREATE3args(diropargs3(client.root, name), how), credential=client.transport.credential)
            for xid, name in enumerate(names, start=1)
        ]
        client.transport.socket.sendall(b"".join(map(frame, calls)))
        client.transport.receive(1, create)  # one read of the server held them all
        assert server.terminate() == 0
        for xid in range(2, len(names) + 1):
            assert client.transport.receive(xid, create).discriminant == nfsstat3.NFS3_OK
    server.start()
    with server.connect() as client:
        assert {entry.name for entry in client.list_directory(client.root)} >= set(names)
