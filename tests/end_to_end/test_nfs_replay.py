"""[NFS-5]: a retransmitted call gets its first answer, over TCP and over UDP."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dittofs.client.nfs3 import EXCHANGES, Nfs3Client, attributes
from dittofs.client.transports import TcpTransport, UdpTransport
from dittofs.protocols.nfs3 import types as t
from dittofs.rpc.calling import xid_of
from dittofs.rpc.records import frame
from tests.end_to_end.server_process import EMBEDDED, ONE_SHARE, MountedClient, ServerProcess

pytestmark = pytest.mark.slow

FIFO = t.mknoddata3(t.ftype3.NF3FIFO, attributes())


def at(directory: bytes, name: bytes) -> t.diropargs3:
    return t.diropargs3(directory, name)


CALLS: dict[str, Callable[[bytes], Any]] = {
    "CREATE": lambda d: t.CREATE3args(at(d, b"n"), t.createhow3(t.createmode3.GUARDED, attributes())),
    "MKDIR": lambda d: t.MKDIR3args(at(d, b"n"), attributes()),
    "SYMLINK": lambda d: t.SYMLINK3args(at(d, b"n"), t.symlinkdata3(attributes(), b"target")),
    "MKNOD": lambda d: t.MKNOD3args(at(d, b"n"), FIFO),
    "REMOVE": lambda d: t.REMOVE3args(at(d, b"file")),
    "RMDIR": lambda d: t.RMDIR3args(at(d, b"directory")),
    "RENAME": lambda d: t.RENAME3args(at(d, b"file"), at(d, b"renamed")),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server"), EMBEDDED + ONE_SHARE) as running:
        yield running


@pytest.fixture(params=[TcpTransport, UdpTransport], ids=["tcp", "udp"])
def client(request: pytest.FixtureRequest, server: ServerProcess) -> Iterator[MountedClient]:
    with server.connect(over=request.param) as connected:
        name = b"test-%d" % len(list(connected.list_directory(connected.root)))
        connected.root = bytes(connected.mkdir(connected.root, name).obj)
        connected.create(connected.root, b"file")
        connected.mkdir(connected.root, b"directory")
        yield connected


def encoded(client: Nfs3Client, name: str, arguments: Any, xid: int) -> bytes:
    return EXCHANGES[name].encode(xid, arguments, credential=client.transport.credential)


def sent(client: Nfs3Client, record: bytes) -> bytes:
    client.transport.send_record(record)
    return client.transport.receive_record(xid_of(record))


@pytest.mark.parametrize("name", CALLS)
def test_a_retransmission_gets_the_first_answer(client: MountedClient, name: str) -> None:
    record = encoded(client, name, CALLS[name](client.root), 4711)
    first = sent(client, record)
    assert EXCHANGES[name].decode(first, 4711).discriminant == t.nfsstat3.NFS3_OK
    changed = client.getattr(client.root)
    assert sent(client, record) == first
    assert client.getattr(client.root) == changed, "it was not run again"
    again = EXCHANGES[name].decode(sent(client, encoded(client, name, CALLS[name](client.root), 4712)), 4712)
    assert again.discriminant != t.nfsstat3.NFS3_OK, "with another number it is another call"


def test_a_number_used_again_for_another_call_is_another_call(client: MountedClient) -> None:
    """The first answer belongs to the whole call, not to its number."""
    for name in (b"one", b"two"):
        arguments = t.MKDIR3args(at(client.root, name), attributes())
        result = EXCHANGES["MKDIR"].decode(sent(client, encoded(client, "MKDIR", arguments, 99)), 99)
        assert result.discriminant == t.nfsstat3.NFS3_OK
    assert client.lookup(client.root, b"one").object != client.lookup(client.root, b"two").object


def test_reads_are_run_again(client: MountedClient) -> None:
    record = encoded(client, "GETATTR", t.GETATTR3args(client.root), 5)
    first = sent(client, record)
    client.create(client.root, b"new")
    assert sent(client, record) != first


def test_duplicates_of_a_call_in_progress_are_dropped(server: ServerProcess) -> None:
    """Twenty of the same in one write: one is run, and each answer that comes is the same."""
    with server.connect() as client:
        record = encoded(client, "MKDIR", t.MKDIR3args(at(client.root, b"once"), attributes()), 31)
        client.transport.socket.sendall(frame(record) * 20)
        client.null()  # everything before it was read by then
        answers = [client.transport.receive_record(31)]
        assert EXCHANGES["MKDIR"].decode(answers[0], 31).discriminant == t.nfsstat3.NFS3_OK
        client.transport.socket.sendall(frame(record))
        assert client.transport.receive_record(31) == answers[0]


def test_another_client_with_the_same_number_has_its_own_answers(server: ServerProcess) -> None:
    with server.connect() as one, server.connect() as two:
        record = encoded(one, "MKDIR", t.MKDIR3args(at(one.root, b"both"), attributes()), 77)
        assert EXCHANGES["MKDIR"].decode(sent(one, record), 77).discriminant == t.nfsstat3.NFS3_OK
        assert EXCHANGES["MKDIR"].decode(sent(two, record), 77).discriminant == t.nfsstat3.NFS3ERR_EXIST
