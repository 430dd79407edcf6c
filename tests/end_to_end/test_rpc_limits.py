"""[NFS-6]: whatever comes in, the answer is the one the RFC names, or a closed connection; and others go on."""

import contextlib
import os
import resource
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dittofs.client.nfs3 import EXCHANGES, attributes
from dittofs.client.transports import NoReply, TcpTransport, Transport, UdpTransport
from dittofs.protocols.nfs3 import types as t
from dittofs.rpc.calling import (
    ArgumentsRefused,
    Exchange,
    ProcedureUnavailable,
    ProgramUnavailable,
    RpcVersionUnavailable,
    VersionUnavailable,
)
from dittofs.rpc.records import frame
from dittofs.xdr.types import uint32
from tests.end_to_end.server_process import MEMORY, ONE_SHARE, MountedClient, ServerProcess

pytestmark = pytest.mark.slow

LIMITS = """
[limits]
max_record_bytes = 70000
max_fragments = 16
slow_sender_seconds = 0.5
idle_timeout_seconds = 0
max_connections = 3000
max_connections_per_client = 2500
max_calls_per_connection = 8
max_reply_bytes_per_connection = 200000
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server"), MEMORY + ONE_SHARE + LIMITS) as running:
        yield running
        assert running.is_running()
        assert "Traceback" not in running.log()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[MountedClient]:
    with server.connect() as connected:
        yield connected


@pytest.fixture(params=[TcpTransport, UdpTransport], ids=["tcp", "udp"])
def transport(request: pytest.FixtureRequest, server: ServerProcess) -> Iterator[Transport]:
    with server.transport(over=request.param) as made:
        yield made


def is_closed(connection: socket.socket) -> bool:
    """Whether the server closes it, within ten seconds."""
    connection.settimeout(10)
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(65_536):
            pass
    return True


class TestAnswersOfTheRfc:
    def test_an_unknown_program(self, transport: Transport) -> None:
        with pytest.raises(ProgramUnavailable):
            transport.call(Exchange("NOBODY", 400_000, 1, 0))

    @pytest.mark.parametrize(("program", "low", "high"), [(100003, 3, 3), (100005, 1, 3)])
    def test_an_unknown_version(self, transport: Transport, program: int, low: int, high: int) -> None:
        with pytest.raises(VersionUnavailable) as refused:
            transport.call(Exchange("NEW", program, 9, 0))
        assert (refused.value.low, refused.value.high) == (low, high)

    @pytest.mark.parametrize("number", [22, 2**32 - 1])
    def test_an_unknown_procedure(self, transport: Transport, number: int) -> None:
        with pytest.raises(ProcedureUnavailable):
            transport.call(Exchange("NEW", 100003, 3, number))

    @pytest.mark.parametrize("name", [name for name in EXCHANGES if name != "NULL"])
    def test_garbage_arguments(self, transport: Transport, name: str) -> None:
        number = EXCHANGES[name].procedure
        with pytest.raises(ArgumentsRefused):
            transport.call(Exchange(name, 100003, 3, number, uint32), 2**32 - 1)

    def test_another_rpc_version(self, transport: Transport) -> None:
        record = bytearray(EXCHANGES["NULL"].encode(7))
        record[8:12] = struct.pack(">I", 3)
        transport.send_record(bytes(record))
        with pytest.raises(RpcVersionUnavailable):
            EXCHANGES["NULL"].decode(transport.receive_record(7), 7)


class TestRecords:
    @pytest.mark.parametrize("size", [1, 3, 10])
    def test_fragments_are_put_together(self, client: MountedClient, size: int) -> None:
        record = EXCHANGES["NULL"].encode(5)
        parts = [record[start : start + size] for start in range(0, len(record), size)]
        if len(parts) > 16:
            parts = [*parts[:15], b"".join(parts[15:])]
        last = len(parts) - 1
        for index, part in enumerate(parts):
            client.transport.socket.sendall(struct.pack(">I", len(part) | (index == last) << 31) + part)
        EXCHANGES["NULL"].decode(client.transport.receive_record(5), 5)

    def test_calls_are_pipelined(self, client: MountedClient) -> None:
        """Hundreds in one write, far more than may be under way at once: all are answered."""
        file = bytes(client.create(client.root, b"pipelined").obj)
        xids = range(1000, 1600)
        getattr_ = EXCHANGES["GETATTR"]
        calls = [getattr_.encode(xid, t.GETATTR3args(file), credential=client.transport.credential) for xid in xids]
        client.transport.socket.sendall(b"".join(map(frame, calls)))
        for xid in reversed(xids):
            assert client.transport.receive(xid, getattr_).discriminant == t.nfsstat3.NFS3_OK

    @pytest.mark.parametrize(
        "stream",
        [
            struct.pack(">I", 1 << 31 | 70_001),
            struct.pack(">I", 2**32 - 1),
            struct.pack(">I", 2**31 - 1),
            struct.pack(">I", 0) * 17,
            (struct.pack(">I", 8) + bytes(8)) * 17,
            frame(b""),
            frame(b"no call"),
            frame(os.urandom(39) + b"\1"),
            b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        ],
        ids=["oversized", "huge", "huge fragment", "empty fragments", "endless", "empty", "short", "random", "http"],
    )
    def test_what_is_no_stream_of_calls_is_closed_and_logged(self, server: ServerProcess, stream: bytes) -> None:
        before = server.log().count("connection closed")
        with socket.create_connection(("127.0.0.1", server.port)) as rude, server.connect() as polite:
            rude.sendall(stream)
            assert is_closed(rude)
            polite.null()
        assert server.log().count("connection closed") == before + 1

    def test_the_largest_record_is_taken(self, client: MountedClient) -> None:
        file = bytes(client.create(client.root, b"large").obj)
        assert client.write(file, 0, bytes(69_000)).count == 69_000

    @pytest.mark.parametrize("begun", [b"\x80", struct.pack(">I", 1 << 31 | 1000), struct.pack(">II", 4, 0)])
    def test_a_slow_sender_is_closed(self, server: ServerProcess, begun: bytes) -> None:
        """A call that has begun must be there in `slow_sender_seconds`, however it trickles in."""
        with socket.create_connection(("127.0.0.1", server.port)) as slow:
            slow.sendall(begun)
            assert is_closed(slow)

    def test_an_idle_connection_is_not_closed_for_that(self, server: ServerProcess, client: MountedClient) -> None:
        with socket.create_connection(("127.0.0.1", server.port)) as slow:
            slow.sendall(b"\x80")
            assert is_closed(slow)
        client.null()

    def test_a_client_that_takes_no_answers_is_left_unread(self, server: ServerProcess) -> None:
        """Memory stays bounded: 400 MB of answers are asked for, and nobody takes them."""
        with server.connect() as greedy, server.connect() as polite:
            file = bytes(greedy.create(greedy.root, b"read often").obj)
            for offset in range(0, 400_000, 50_000):
                greedy.write(file, offset, bytes(50_000))
            before = server.memory_bytes()
            read = EXCHANGES["READ"]
            call = frame(read.encode(1, t.READ3args(file, 0, 400_000), credential=greedy.transport.credential))
            greedy.transport.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                for _ in range(1000):
                    greedy.transport.socket.sendall(call)
            for _ in range(50):
                polite.null()
            assert server.memory_bytes() - before < 50_000_000


def test_thousands_of_idle_connections(server: ServerProcess, client: MountedClient) -> None:
    """Two thousand say nothing, and the next client is served; beyond the limit per client they are refused."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4000:
        pytest.skip(f"only {hard} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4000), hard))
    with contextlib.ExitStack() as idle:
        connections = [idle.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(2600)]
        client.null()
        assert is_closed(connections[-1])
        with server.connect(source="127.0.0.2") as other:
            other.null()
    deadline = time.monotonic() + 20
    while True:
        with contextlib.suppress(NoReply, OSError), server.connect() as again:
            again.null()
            break
        assert time.monotonic() < deadline, "the closed connections were not given back"


def test_more_connections_than_open_files_allow(tmp_path: Path) -> None:
    """The server raises its own limit of open files as far as it may, for `max_connections` needs it."""
    limits = "[limits]\nmax_connections_per_client = 2000\n"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip(f"only {hard} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        server = ServerProcess(tmp_path, MEMORY + ONE_SHARE + limits)
        server.__enter__()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with contextlib.ExitStack() as idle:
        idle.push(server.__exit__)
        for _ in range(400):
            idle.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        with server.connect() as client:
            client.null()


def test_idle_connections_are_closed_when_that_is_set(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, MEMORY + ONE_SHARE + "[limits]\nidle_timeout_seconds = 0.1\n") as server:
        with socket.create_connection(("127.0.0.1", server.port)) as idle:
            assert is_closed(idle)


def test_answers_are_kept_for_retransmissions_within_a_bound(tmp_path: Path) -> None:
    """[NFS-5]: with no room at all a retransmitted MKDIR is run again."""
    with ServerProcess(tmp_path, MEMORY + ONE_SHARE + "[limits]\nmax_replay_bytes = 1\n") as server:
        with server.connect() as client:
            arguments = t.MKDIR3args(t.diropargs3(client.root, b"directory"), attributes())
            record = EXCHANGES["MKDIR"].encode(9, arguments, credential=client.transport.credential)
            answers = []
            for _ in range(2):
                client.transport.send_record(record)
                answers.append(EXCHANGES["MKDIR"].decode(client.transport.receive_record(9), 9).discriminant)
            assert answers == [t.nfsstat3.NFS3_OK, t.nfsstat3.NFS3ERR_EXIST]


def test_udp_can_be_switched_off(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, MEMORY + ONE_SHARE + "[limits]\nudp = false\n") as server:
        with server.connect() as client, server.transport(over=UdpTransport) as datagrams:
            client.null()
            with pytest.raises(ConnectionRefusedError):
                datagrams.call(EXCHANGES["NULL"])
