"""[NFS-3]: where port 111 is not to be had, the host's rpcbind is asked; a hung one does not stall the start."""

import contextlib
import math
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dittofs.client import portmap as p
from dittofs.client.transports import TcpTransport, Transport
from dittofs.rpc.messages import accept_stat, accepted
from dittofs.rpc.records import Reassembler, frame
from tests.end_to_end.namespaces import Namespace, namespace
from tests.end_to_end.server_process import MEMORY, ONE_SHARE, ServerProcess

pytestmark = [pytest.mark.root, pytest.mark.slow]

PATIENCE_SECONDS = 45
"""Far below what a stalled start would take, far above what a loaded machine needs."""


@pytest.fixture
def network() -> Iterator[Namespace]:
    with namespace("rpcbind") as made:
        yield made


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """What stands in the place of /run."""
    made = tmp_path / "run"
    made.mkdir()
    return made


def server(network: Namespace, run: Path, directory: Path, mode: str) -> ServerProcess:
    return ServerProcess(
        directory,
        MEMORY + ONE_SHARE,
        server="",
        environment={"DITTOFS_SERVER_PORTMAP": mode},
        within=network.with_run_directory(run),
    )


@pytest.fixture
def rpcbind(network: Namespace, run: Path) -> Iterator[Transport]:
    """The real one, and a way to ask it."""
    with subprocess.Popen([*network.with_run_directory(run), "rpcbind", "-f"]) as process:
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while True:
                with contextlib.suppress(OSError):
                    asking = network.within(lambda: TcpTransport("127.0.0.1", p.PORT))
                    break
                assert process.poll() is None, "rpcbind ended"
                assert time.monotonic() < deadline, "rpcbind did not start"
            with asking:
                yield asking
        finally:
            process.terminate()


def ours(asking: Transport) -> set[tuple[int, int, str]]:
    """Programs other than rpcbind itself: number, version, network."""
    return {
        (found.r_prog, found.r_vers, bytes(found.r_netid).decode())
        for found in asking.call(p.RPCB_DUMP)
        if found.r_prog != p.PROGRAM
    }


def test_every_program_is_registered_and_withdrawn(
    network: Namespace, run: Path, rpcbind: Transport, tmp_path: Path
) -> None:
    """Each transport by itself; after a clean stop nothing of ours is left."""
    before = ours(rpcbind)
    with server(network, run, tmp_path / "one", "auto") as running:
        expected = {(100003, 3), (100005, 3), (100005, 1)}
        networks = ("tcp", "udp", "tcp6", "udp6")
        assert {(*program, netid) for program in expected for netid in networks} <= ours(rpcbind)
        assert p.port_of(rpcbind, 100003, 3) == running.port
        assert "mount -t nfs -o vers=3 " in running.printed
        assert running.terminate() == 0
    assert ours(rpcbind) == before


def test_entries_of_a_server_that_died_are_replaced(
    network: Namespace, run: Path, rpcbind: Transport, tmp_path: Path
) -> None:
    with server(network, run, tmp_path / "one", "host") as running:
        first = running.port
        running.kill()
        assert p.port_of(rpcbind, 100003, 3) == first, "nobody took it out"
        running.start()
        assert running.port != first
        for protocol in ("tcp", "udp"):
            assert p.port_of(rpcbind, 100003, 3, protocol) == running.port


def test_entries_of_a_server_that_lives_are_not(
    network: Namespace, run: Path, rpcbind: Transport, tmp_path: Path
) -> None:
    with server(network, run, tmp_path / "one", "host") as first:
        with pytest.raises(AssertionError, match="somebody else's NFS version 3"):
            server(network, run, tmp_path / "two", "host").__enter__()
        with server(network, run, tmp_path / "three", "auto") as third:
            assert "Port 111 was not to be had" in third.printed
            assert f"port={third.port}" in third.printed
        assert p.port_of(rpcbind, 100003, 3) == first.port
        with network.within(first.connect) as client:
            client.null()


class HungRpcbind:
    """Takes calls and answers only the first few of them, or all until it is told to hang."""

    def __init__(self, path: Path, answers: float):
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen(64)
        self._answers = answers
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self._open.append(connection)
                if self._answers > 0:  # infinity stays what it is
                    self._answers -= 1
                    for record in Reassembler(max_record_size=4096).feed(connection.recv(4096)):
                        reply = accepted(int.from_bytes(record[:4]), accept_stat.SUCCESS) + (1).to_bytes(4)
                        connection.sendall(frame(reply))

    def hang(self) -> None:
        self._answers = 0

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        for made in (self._listening, *self._open):
            made.close()


@pytest.fixture
def taken(network: Namespace) -> Iterator[None]:
    """Port 111 belongs to somebody who says nothing."""

    def bind() -> socket.socket:
        return socket.create_server(("0.0.0.0", p.PORT))

    with network.within(bind):
        yield


@pytest.mark.parametrize("answers", [0, 5])
def test_a_hung_rpcbind_does_not_stall_the_start(
    network: Namespace, run: Path, taken: None, tmp_path: Path, answers: int
) -> None:
    """Nor the stop, also if it hangs half way."""
    hung = HungRpcbind(run / "rpcbind.sock", answers)
    try:
        with server(network, run, tmp_path / "server", "auto") as running:
            assert running.start_seconds < PATIENCE_SECONDS
            assert "Port 111 was not to be had" in running.printed
            assert "gave no answer" in running.printed
            assert f"port={running.port},mountport={running.port}" in running.printed
            with network.within(running.connect) as client:
                client.null()
            began = time.monotonic()
            assert running.terminate() == 0
            assert time.monotonic() - began < PATIENCE_SECONDS
    finally:
        hung.close()


def test_an_rpcbind_that_hangs_later_does_not_stall_the_stop(
    network: Namespace, run: Path, taken: None, tmp_path: Path
) -> None:
    hung = HungRpcbind(run / "rpcbind.sock", math.inf)
    try:
        with server(network, run, tmp_path / "server", "host") as running:
            hung.hang()
            began = time.monotonic()
            assert running.terminate() == 0
            assert time.monotonic() - began < PATIENCE_SECONDS
    finally:
        hung.close()


@pytest.mark.parametrize(("mode", "reason"), [("embedded", "port 111"), ("host", "rpcbind")])
def test_a_mode_that_cannot_be_had_is_refused_by_name(
    network: Namespace, run: Path, taken: None, tmp_path: Path, mode: str, reason: str
) -> None:
    with pytest.raises(AssertionError, match=reason):
        server(network, run, tmp_path / "server", mode).__enter__()
