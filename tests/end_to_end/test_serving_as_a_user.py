"""[OPS-1]: `dittofs serve` as anybody runs it: no root, no options, no port 111; and what it says then."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.namespaces import ADDRESS, Namespace, namespace
from tests.end_to_end.server_process import SOURCE

pytestmark = [pytest.mark.root, pytest.mark.slow]

PATIENCE_SECONDS = 30


@pytest.fixture(scope="module")
def network() -> Iterator[Namespace]:
    with namespace("setpriv") as made:
        yield made


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Of a user without any rights, whom pytest's own directories would lock out."""
    nobody = pwd.getpwnam("nobody")
    made = Path(f"/tmp/dittofs-home-{os.getpid()}")
    made.mkdir()
    os.chown(made, nobody.pw_uid, nobody.pw_gid)
    yield made
    shutil.rmtree(made)


def as_nobody(network: Namespace, home: Path, *command: str) -> subprocess.Popen[str]:
    ids = pwd.getpwnam("nobody")
    privileges = ["setpriv", f"--reuid={ids.pw_uid}", f"--regid={ids.pw_gid}", "--clear-groups", "--"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(SOURCE)}
    return subprocess.Popen(
        [*network.enter, *privileges, sys.executable, "-m", "dittofs", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd="/",
    )


def skip_if_locked_out(network: Namespace, home: Path) -> None:
    tried = as_nobody(network, home, "version")
    _, errors = tried.communicate(timeout=PATIENCE_SECONDS)
    if tried.returncode:
        pytest.skip(f"a user without rights cannot read this tree: {errors.strip()[-200:]}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serving_on_defaults_without_root(network: Namespace, home: Path, number: signal.Signals) -> None:
    """Data in the user's own directory, the exact commands, why port 111 was not to be had and what helps; either
    signal ends it well."""
    skip_if_locked_out(network, home)
    server = as_nobody(network, home, "serve")
    assert server.stdout is not None
    assert server.stdout.readline() == "Serving /export on port 12049.\n"
    printed = ""
    while "setcap" not in printed:
        line = server.stdout.readline()
        assert line, f"the text ends early:\n{printed}"
        printed += line
    server.send_signal(number)
    _, logged = server.communicate(timeout=PATIENCE_SECONDS)
    assert server.returncode == 0
    assert "Traceback" not in logged
    options = "vers=3,proto=tcp,port=12049,mountport=12049,mountproto=tcp,nolock"
    assert f"sudo mount -t nfs -o {options} {ADDRESS}:/export /mnt/export\n" in printed
    assert f"sudo mount -t nfs -o {options} 127.0.0.1:/export /mnt/export\n" in printed
    assert f"-o vers=3,tcp,port=12049,mountport=12049,nolocks {ADDRESS}:/export /private/mnt/export\n" in printed
    assert "Port 111 was not to be had (cannot listen on 0.0.0.0 port 111 (TCP): Permission denied; " in printed
    assert "sudo sysctl net.ipv4.ip_unprivileged_port_start=111" in printed
    assert (home / ".local/share/dittofs/format").exists()
