"""`dittofs client lock` in a network of its own: called back where that is possible, polling where it is not; and a
server that is killed while the lock is held."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from dittofs.client import portmap
from dittofs.client.nlm import NlmClient, Range
from dittofs.client.transports import TcpTransport
from dittofs.protocols.nlm.types import PROGRAM
from tests.end_to_end.locking import ALICE, BOB, DENIED, GRANTED
from tests.end_to_end.namespaces import Namespace, namespace
from tests.end_to_end.server_process import EMBEDDED, MEMORY, ONE_SHARE, SHARE, MountedClient, ServerProcess
from tests.end_to_end.test_client_lock import SECONDS, environment, wait_for

pytestmark = [pytest.mark.root, pytest.mark.slow]

AT_ONCE_SECONDS = 8.0
"""Less than the pause after which a client that is called back asks again all the same."""


REGISTER = """
import asyncio
from dittofs.net import outbound
from dittofs.protocols.portmap.addresses import NetworkId
from dittofs.protocols.portmap.registering import SET, registrations
from dittofs.rpc.program import Program
(entry,) = registrations([Program("NLM", 100021, 4)], [NetworkId("tcp", 4)], 777)
how = dict(address="/run/rpcbind.sock", port=0, transport="local", timeout_seconds=9)
assert asyncio.run(outbound.call(SET, entry.entry, **how))
"""
"""Stands for the kernel's lock service."""


@pytest.fixture
def network() -> Iterator[Namespace]:
    with namespace() as made:
        yield made


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """What stands in the place of /run: there rpcbind takes registrations."""
    made = tmp_path / "run"
    made.mkdir()
    return made


class Waiting:
    """A server in a namespace, a lock on one of its files, and a command line that waits for it."""

    def __init__(self, network: Namespace, run: Path, server: ServerProcess):
        self.server = server
        self.within = network.with_run_directory(run)
        self.nfs: MountedClient = network.within(server.connect)
        self.nlm = NlmClient(self.nfs.transport, b"tester")
        made = self.nfs.create(self.nfs.root, b"file")
        assert made.obj is not None
        self.file = Range(handle=made.obj)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.nfs.transport.close()

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "dittofs", "client", "lock", f"127.0.0.1:{SHARE}", "file"]
        return subprocess.Popen(
            [*self.within, *command, "--port", str(self.server.port), *words], env=environment(), cwd="/"
        )

    def hand_over(self, flag: Path) -> float:
        """How long the command line needs to get a lock that was held when it came."""
        assert self.nlm.lock(ALICE, self.file) is GRANTED
        process = self.start("--wait", "--", "touch", str(flag))
        self.until_it_has_asked()
        assert not flag.exists()
        began = time.monotonic()
        assert self.nlm.unlock(ALICE, self.file) is GRANTED
        assert process.wait(SECONDS) == 0
        assert flag.exists()
        return time.monotonic() - began

    def until_it_has_asked(self) -> None:
        """Nothing outside shows that it waits; should it be slower than this, its first question gets it the lock."""
        time.sleep(4)


@pytest.fixture
def waiting(network: Namespace, run: Path, tmp_path: Path) -> Iterator[Waiting]:
    with ServerProcess(tmp_path / "server", MEMORY + ONE_SHARE, within=network.enter) as server:
        with Waiting(network, run, server) as made:
            yield made


@contextlib.contextmanager
def rpcbind(network: Namespace, run: Path) -> Iterator[None]:
    with subprocess.Popen([*network.with_run_directory(run), "rpcbind", "-f", "-w"]) as process:
        try:
            deadline = time.monotonic() + SECONDS
            while True:
                with contextlib.suppress(OSError):
                    network.within(lambda: TcpTransport("127.0.0.1", portmap.PORT)).close()
                    break
                assert process.poll() is None, "rpcbind ended"
                assert time.monotonic() < deadline, "rpcbind does not listen"
            yield
        finally:
            process.terminate()


def test_it_answers_on_port_111_itself(waiting: Waiting, tmp_path: Path) -> None:
    """Nobody is there: the server finds it, and calls it back at once."""
    assert waiting.hand_over(tmp_path / "flag") < AT_ONCE_SECONDS
    assert "callback failed" not in waiting.server.log()


def test_it_registers_with_the_hosts_rpcbind(waiting: Waiting, network: Namespace, run: Path, tmp_path: Path) -> None:
    """And takes its entry away again."""
    with rpcbind(network, run):
        assert waiting.hand_over(tmp_path / "flag") < AT_ONCE_SECONDS
        with network.within(lambda: TcpTransport("127.0.0.1", portmap.PORT)) as asking:
            assert portmap.port_of(asking, PROGRAM, 4) == 0
    assert "callback failed" not in waiting.server.log()


def test_it_polls_where_the_hosts_lock_service_is_registered(
    waiting: Waiting, network: Namespace, run: Path, tmp_path: Path
) -> None:
    """The entry is left alone, no callback is asked for, and the lock is had all the same."""
    with rpcbind(network, run):
        argv = [*network.with_run_directory(run), sys.executable, "-c", REGISTER]
        subprocess.run(argv, env=environment(), check=True, cwd="/")
        waiting.hand_over(tmp_path / "flag")
        with network.within(lambda: TcpTransport("127.0.0.1", portmap.PORT)) as asking:
            assert portmap.port_of(asking, PROGRAM, 4) == 777
    assert "callback failed" not in waiting.server.log()


def test_the_lock_is_reclaimed_when_the_server_comes_back(network: Namespace, run: Path, tmp_path: Path) -> None:
    """[GRACE-2]: a server that was killed while the command runs does not give the lock to somebody else."""
    with ServerProcess(
        tmp_path / "server",
        EMBEDDED + ONE_SHARE,
        within=network.enter,
        environment={"DITTOFS_SERVER_PORT": "12049", "DITTOFS_LOCKS_GRACE_SECONDS": "60"},
    ) as server:
        with Waiting(network, run, server) as waiting:
            start = waiting.start
        flag, go_on = tmp_path / "flag", tmp_path / "go-on"
        process = start("--", "sh", "-c", f"touch {flag}; until [ -e {go_on} ]; do sleep 0.05; done")
        wait_for(flag)
        server.kill()
        server.start()
        with network.within(server.connect) as nfs:
            nlm = NlmClient(nfs.transport, b"tester")
            deadline = time.monotonic() + 50
            while (status := nlm.lock(BOB, waiting.file)) is not DENIED:
                assert status is not GRANTED, "it was stolen"
                assert time.monotonic() < deadline, "grace ends when the lock is reclaimed"
                time.sleep(0.1)
            go_on.touch()
            assert process.wait(SECONDS) == 0
            assert nlm.lock(BOB, waiting.file) is GRANTED
