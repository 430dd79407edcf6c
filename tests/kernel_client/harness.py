"""Real Linux NFS clients for tests: a server of ours in a network of its own, and kernels that mount it.

`KernelClient` is a context manager over the `kernel-client` script beside this file; README.md says what the guests
can do.  Where it cannot run the test is skipped, with the reason.
"""

import functools
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

HERE = Path(__file__).resolve().parent
SCRIPT = HERE / "kernel-client"
GUEST = HERE / "guest"
TOOLS = ("linux.uml", "busybox", "ip", "unshare", "nsenter", "modprobe", "rpcbind", "rpc.statd", "mount.nfs")
PORT = 12049


@functools.cache
def reason_to_skip() -> str:
    """Why no guest can be booted here; empty if one can."""
    if os.geteuid() != 0:
        return "the kernel's client needs root (network namespaces)"
    if not Path("/dev/net/tun").exists():
        return "the kernel's client needs /dev/net/tun"
    missing = [tool for tool in TOOLS if not shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")]
    if missing:
        return f"not installed: {', '.join(missing)} (tests/install-packages installs them)"
    probe = subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, text=True, check=False)
    return f"no namespaces here: {probe.stderr.strip()}" if probe.returncode else ""


def skip_unless_possible() -> None:
    if reason := reason_to_skip():
        pytest.skip(reason)


@dataclass(slots=True)
class KernelClient:
    """One server and one or two booted clients, `client1` and `client2`; gone when the block ends, whatever happened.

    The server is `dittofs serve` with `config`, which must not set `server.data`: that is `data`.
    """

    config: str
    data: Path
    clients: int = 1
    ports: tuple[int, ...] = (PORT, 111)
    command: str = ""
    """Another server than ours, to try the harness itself."""
    options: tuple[str, ...] = ()
    _name: str = field(init=False)

    def __post_init__(self) -> None:
        self._name = f"test-{os.getpid()}-{id(self):x}"

    def __enter__(self) -> Self:
        skip_unless_possible()
        self.data.mkdir(parents=True, exist_ok=True)
        waits = [word for port in self.ports for word in ("--wait-port", str(port))]
        server = ["--server", self.command or self.server_command()]
        # `up` cleans up after itself when it fails.
        self._call("up", "--clients", str(self.clients), *self.options, *server, *waits, timeout=180)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            print(f"--- the server's log\n{self.log()}")
        self._call("down", timeout=60)

    def server_command(self) -> str:
        file = self.data / "dittofs.toml"
        file.write_text(self.config)
        argv = [sys.executable, "-m", "dittofs", "serve", "--config", str(file), "--data", str(self.data / "data")]
        source = HERE.parents[1] / "src"
        return f"PYTHONPATH={shlex.quote(str(source))} exec {shlex.join(argv)}"

    def run(self, script: str, *, client: str = "client1", timeout: float = 300) -> str:
        """Run a shell script on a guest; its output.  It stops, and the test fails, at the first command that does."""
        return self._call("exec", "--timeout", str(timeout), client, "--", f"set -e\n{script}", timeout=timeout + 30)

    def beside_server(self, *argv: str, timeout: float = 60) -> str:
        """Run a command in the server's network namespace; its output."""
        return self._call("ns", "--", *argv, timeout=timeout)

    def daemon(self, name: str, *argv: str) -> None:
        """Start another process beside the server; it ends with the block, or by `signal`."""
        self._call("daemon", name, "--", *argv, timeout=30)

    def signal(self, name: str, number: str) -> None:
        self._call("signal", name, number, timeout=30)

    def server(self, action: str) -> None:
        """`stop` (SIGTERM), `kill` (SIGKILL), `start` or `restart`; starting waits for the ports."""
        self._call("server", action, timeout=120)

    def power_cycle(self, client: str) -> None:
        """Pull the plug of a client and boot it again."""
        self._call("reboot", client, timeout=120)

    def pull_the_plug(self, client: str) -> None:
        """The machine is gone, with everything that its kernel had not written to its disk."""
        self._call("kill", client, timeout=60)

    def boot(self, client: str) -> None:
        self._call("boot", client, timeout=240)

    @property
    def network_namespace(self) -> Path:
        return Path(f"/run/netns/kc-{self._name}")

    def log(self) -> str:
        return self._call("server", "log", timeout=20, is_checked=False)

    def _call(self, *arguments: str, timeout: float, is_checked: bool = True) -> str:
        argv = [sys.executable, str(SCRIPT), "--name", self._name, *arguments]
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
        if is_checked and done.returncode:
            raise AssertionError(f"kernel-client {shlex.join(arguments)}: status {done.returncode}\n{done.stdout}")
        return done.stdout
