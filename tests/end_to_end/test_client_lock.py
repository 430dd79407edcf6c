"""`dittofs client lock`: a lock on a server's file while a command runs, without any mount."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dittofs.client.nlm import NlmClient, Range
from tests.end_to_end.locking import ALICE, BOB, DENIED, GRANTED
from tests.end_to_end.server_process import MEMORY, ONE_SHARE, SOURCE, MountedClient, ServerProcess

pytestmark = [pytest.mark.slow]

SECONDS = 60.0


class Locking:
    """A server, and the command line against it."""

    def __init__(self, server: ServerProcess, nfs: MountedClient):
        self.server = server
        self.nfs = nfs
        self.nlm = NlmClient(nfs.transport, b"tester")

    def argv(self, path: str, *words: str) -> list[str]:
        here = [sys.executable, "-m", "dittofs", "client", "lock", "127.0.0.1:/export", path]
        return [*here, "--port", str(self.server.port), *words]

    def run(self, path: str, *words: str) -> "subprocess.CompletedProcess[str]":
        argv = self.argv(path, *words)
        return subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment())

    def start(self, path: str, *words: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(self.argv(path, *words), env=environment())

    def file(self, name: str) -> Range:
        made = self.nfs.create(self.nfs.root, name.encode())
        assert made.obj is not None
        return Range(handle=made.obj)

    def is_free(self, file: Range) -> bool:
        status = self.nlm.lock(BOB, file)
        if status is GRANTED:
            self.nlm.unlock(BOB, file)
        return status is GRANTED


def environment() -> dict[str, str]:
    ours = {key: value for key, value in os.environ.items() if not key.startswith("DITTOFS_")}
    return {**ours, "PYTHONPATH": str(SOURCE)}


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not appear"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def locking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locking]:
    directory = tmp_path_factory.mktemp("server")
    with ServerProcess(directory, MEMORY + ONE_SHARE) as server, server.connect() as nfs:
        yield Locking(server, nfs)


def test_the_command_runs_while_the_lock_is_held(locking: Locking, tmp_path: Path) -> None:
    """Its exit status is ours; afterwards the lock is free."""
    file = locking.file("held")
    running, go_on = tmp_path / "running", tmp_path / "go-on"
    script = f"touch {running}; until [ -e {go_on} ]; do sleep 0.02; done; exit 7"
    process = locking.start("held", "--", "sh", "-c", script)
    wait_for(running)
    assert not locking.is_free(file)
    status, holder = locking.nlm.test(BOB, file)
    assert (status, holder.svid) == (DENIED, process.pid)
    go_on.touch()
    assert process.wait(SECONDS) == 7
    assert locking.is_free(file)


def test_a_file_that_is_not_there_is_made(locking: Locking) -> None:
    """As flock(1) does; also below directories, and with a range."""
    locking.nfs.mkdir(locking.nfs.root, b"directory")
    done = locking.run("directory/new", "--range", "10-20", "--", "echo", "done")
    assert (done.returncode, done.stdout) == (0, "done\n")
    found = locking.nfs.lookup(locking.nfs.lookup(locking.nfs.root, b"directory").object, b"new")
    assert found.object


def test_what_somebody_else_holds_is_not_waited_for(locking: Locking) -> None:
    """The holder is named, and the command is not run."""
    file = locking.file("taken")
    assert locking.nlm.lock(ALICE, file) is GRANTED
    done = locking.run("taken", "--", "echo", "never")
    assert (done.returncode, done.stdout) == (1, "")
    assert "held by process 1 (alice), exclusive, from byte 0 to the end" in done.stderr
    assert locking.run("taken", "-E", "75", "--", "true").returncode == 75
    assert locking.run("taken", "--range", "5-", "--shared", "--", "true").returncode == 1
    assert locking.nlm.unlock(ALICE, file) is GRANTED


def test_ranges_and_shared_locks(locking: Locking) -> None:
    """Half-open, as everywhere: byte B is not in."""
    file = locking.file("ranges")
    assert locking.nlm.lock(ALICE, Range(handle=file.handle, offset=10, length=10)) is GRANTED
    assert locking.run("ranges", "--range", "0-10", "--", "true").returncode == 0
    assert locking.run("ranges", "--range", "20-", "--", "true").returncode == 0
    assert locking.run("ranges", "--range", "0-11", "--", "true").returncode == 1
    assert locking.nlm.unlock(ALICE, file) is GRANTED
    assert locking.nlm.lock(ALICE, file, exclusive=False) is GRANTED
    assert locking.run("ranges", "--shared", "--", "true").returncode == 0
    assert locking.run("ranges", "--", "true").returncode == 1


def test_with_wait_it_gets_the_lock_when_it_is_free(locking: Locking, tmp_path: Path) -> None:
    file = locking.file("waited-for")
    assert locking.nlm.lock(ALICE, file) is GRANTED
    running = tmp_path / "running"
    process = locking.start("waited-for", "--wait", "--", "touch", str(running))
    # It shows itself by a second connection and its calls; give it the time to have asked at least once.
    time.sleep(2)
    assert not running.exists()
    assert locking.nlm.unlock(ALICE, file) is GRANTED
    assert process.wait(SECONDS) == 0
    assert running.exists()
    assert locking.is_free(file)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_goes_to_the_command_and_the_lock_is_given_back(
    locking: Locking, tmp_path: Path, number: signal.Signals
) -> None:
    file = locking.file(f"signal-{number.name}")
    running = tmp_path / "running"
    script = f"""
import pathlib, signal
signal.signal({number}, signal.SIG_DFL)
pathlib.Path({str(running)!r}).touch()
signal.pause()
"""
    process = locking.start(f"signal-{number.name}", "--", sys.executable, "-c", script)
    wait_for(running)
    process.send_signal(number)
    assert process.wait(SECONDS) == 128 + number
    assert locking.is_free(file)


def test_a_signal_ends_the_waiting(locking: Locking) -> None:
    """And leaves nothing in the queue."""
    file = locking.file("given-up")
    assert locking.nlm.lock(ALICE, file) is GRANTED
    process = locking.start("given-up", "--wait", "--", "true")
    time.sleep(2)  # wherever it is by then, it must end
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) in (128 + signal.SIGTERM, -signal.SIGTERM)
    assert locking.nlm.unlock(ALICE, file) is GRANTED
    assert locking.is_free(file)


def test_a_command_that_cannot_be_run(locking: Locking) -> None:
    """As a shell says it; the lock is free again."""
    file = locking.file("no-command")
    done = locking.run("no-command", "--", "/no/such/program")
    assert done.returncode == 127
    assert "/no/such/program: not found" in done.stderr
    assert locking.run("no-command", "--", "/").returncode == 126
    assert locking.is_free(file)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere", "f", "--", "true"], "is not HOST:/export"),
        (["127.0.0.1:/export", "f", "--range", "9-3", "--", "true"], "A must be below B"),
        (["127.0.0.1:/export", "f", "--range", "x", "--", "true"], "must be A-B or A-"),
        (["127.0.0.1:/export", "f"], "COMMAND"),
    ],
)
def test_what_is_asked_for_wrongly_is_said_clearly(words: list[str], said: str) -> None:
    argv = [sys.executable, "-m", "dittofs", "client", "lock", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment())
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("location", "path", "said"),
    [
        ("127.0.0.1:/nowhere", "f", "MNT3ERR_NOENT"),
        ("127.0.0.1:/export", "no/such/directory", "NFS3ERR_NOENT"),
        ("127.0.0.1:/export", "a-directory", "is no regular file"),
    ],
)
def test_what_cannot_be_locked_is_said_clearly(locking: Locking, location: str, path: str, said: str) -> None:
    if path == "a-directory":
        locking.nfs.mkdir(locking.nfs.root, b"a-directory")
    argv = [sys.executable, "-m", "dittofs", "client", "lock", location, path]
    argv += ["--port", str(locking.server.port), "--", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment())
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_help_says_what_sigkill_leaves_behind() -> None:
    argv = [sys.executable, "-m", "dittofs", "client", "lock", "--help"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=True, env=environment())
    words = " ".join(done.stdout.split())
    assert "SIGKILL cannot be caught" in words
    assert "until its operator frees it" in words
