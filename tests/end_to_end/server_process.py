"""A real `dittofs serve` for tests: its own process, data and port, and nothing left behind.

    with ServerProcess(tmp_path) as server, server.connect() as client:
        client.mkdir(client.root, b"directory")
        server.kill()
        server.start()

Each start may give another port: a port of the range for outgoing connections could not be had again for certain,
and a client that connects to such a port while nobody listens may be connected to itself.
"""

import os
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import dittofs
from dittofs.client.mount import mount
from dittofs.client.nfs3 import Nfs3Client
from dittofs.client.transports import TcpTransport, Transport, UdpTransport
from dittofs.rpc.calling import auth_sys
from dittofs.rpc.messages import opaque_auth

SOURCE = Path(dittofs.__file__).resolve().parents[1]
"""Of the package under test, be it the sources or the compiled build."""
START_SECONDS = 90.0
STOP_SECONDS = 60.0
SHARE = "/export"

EMBEDDED = """
[stores.meta]
kind = "embedded"
[stores.files]
kind = "directory"
"""
MEMORY = """
[stores.meta]
kind = "memory"
[stores.files]
kind = "memory"
"""
POSTGRES = """
[stores.meta]
kind = "postgres"
dsn = "DSN"
[stores.files]
kind = "directory"
"""
ONE_SHARE = f"""
[[shares]]
name = "{SHARE}"
squash = "none"
"""
ROOT = auth_sys(uid=0, gid=0)


def over_postgres(dsn: str) -> str:
    """Stores with the metadata in a database."""
    return POSTGRES.replace("DSN", dsn)


class MountedClient(Nfs3Client):
    """NFSv3 over one connection to a server, with the handle of a share's root."""

    def __init__(self, transport: Transport, root: bytes):
        super().__init__(transport)
        self.root = root

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.transport.close()


@dataclass(slots=True)
class ServerProcess:
    """One server, started when the block begins and gone when it ends.

    `config` is TOML without `[server]`: that is written here, with what `server` adds to it.
    """

    directory: Path
    config: str = EMBEDDED + ONE_SHARE
    server: str = 'listen = ["127.0.0.1"]'
    environment: dict[str, str] = field(default_factory=dict)
    within: tuple[str, ...] = ()
    """A command to run it by, such as one that enters a namespace."""
    port: int = field(default=0, init=False)
    printed: str = field(default="", init=False)
    """What it said on standard output up to the port."""
    start_seconds: float = field(default=0.0, init=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config_file.write_text(
            f'[server]\nport = 0\nportmap = "off"\ndata = "{self.data}"\n{self.server}\n{self.config}\n'
            + "".join(
                f'[{name}]\nlisten = "127.0.0.1:0"\n' for name in ("api", "metrics") if f"[{name}]" not in self.config
            )
        )
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        self.kill()
        if kind is not None:
            print(f"--- the server's log\n{self.log()[-20_000:]}")

    @property
    def config_file(self) -> Path:
        return self.directory / "dittofs.toml"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def log(self) -> str:
        """Everything it logged, over all starts."""
        path = self.directory / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def wait_for_log(self, text: str) -> None:
        """Until it has logged this, in whichever run."""
        deadline = time.monotonic() + START_SECONDS
        while text not in self.log():
            assert time.monotonic() < deadline, f"not logged in {START_SECONDS} s: {text}"
            time.sleep(0.02)

    def start(self) -> None:
        """Start, and wait until it serves."""
        began = time.monotonic()
        self.launch()
        try:
            self._wait_until_it_serves(began + START_SECONDS)
        except BaseException:
            self.kill()
            raise
        self.start_seconds = time.monotonic() - began

    def launch(self) -> None:
        """Start without waiting: whoever does not wait may kill it half way."""
        assert self._process is None, "the server runs already"
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self.within, *self.command("serve")],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._environment(),
            )

    def _wait_until_it_serves(self, deadline: float) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        said = b""
        while not (found := re.search(rb"^Serving .* on port (\d+)\.$", said, re.MULTILINE)):
            remaining = deadline - time.monotonic()
            assert remaining > 0, f"the server did not start in {START_SECONDS} s\n{self.log()[-5000:]}"
            if select.select([descriptor], [], [], remaining)[0]:
                part = os.read(descriptor, 65_536)
                assert part, f"the server ended with {self._process.wait()} before it served\n{self.log()[-5000:]}"
                said += part
        self.port = int(found[1])
        self.printed = said.decode()

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        """SIGTERM; the exit status."""
        return self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Stop cleanly, and start."""
        assert self.terminate() == 0, "a clean stop has status 0"
        self.start()

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the server did not stop in {STOP_SECONDS} s") from None
        finally:
            assert process.stdout is not None
            process.stdout.close()

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def check(self, *options: str) -> subprocess.CompletedProcess[str]:
        """`dittofs check` on the data of the stopped server."""
        assert self._process is None, "the check is offline"
        return subprocess.run(
            self.command("check", *options),
            capture_output=True,
            text=True,
            env=self._environment(),
            timeout=120,
            check=False,
        )

    def memory_bytes(self) -> int:
        """Anonymous memory of the process, now."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"RssAnon:\s+(\d+) kB", status)
        assert found is not None, "Linux tells RssAnon"
        return int(found[1]) * 1024

    def command(self, name: str, *options: str) -> list[str]:
        return [sys.executable, "-m", "dittofs", name, "--config", str(self.config_file), *options]

    def _environment(self) -> dict[str, str]:
        ours = {key: value for key, value in os.environ.items() if not key.startswith("DITTOFS_")}
        return {**ours, "PYTHONPATH": str(SOURCE), **self.environment}

    def connect(
        self,
        share: str = SHARE,
        *,
        credential: opaque_auth = ROOT,
        address: str = "127.0.0.1",
        source: str | None = None,
        over: type[TcpTransport] | type[UdpTransport] = TcpTransport,
    ) -> MountedClient:
        """A client with the root of a share; from the local address `source`."""
        transport = self.transport(credential=credential, address=address, source=source, over=over)
        try:
            return MountedClient(transport, mount(transport, share).fhandle)
        except BaseException:
            transport.close()
            raise

    def transport(
        self,
        *,
        credential: opaque_auth = ROOT,
        address: str = "127.0.0.1",
        source: str | None = None,
        over: type[TcpTransport] | type[UdpTransport] = TcpTransport,
    ) -> Transport:
        return over(address, self.port, credential=credential, source=None if source is None else (source, 0))
