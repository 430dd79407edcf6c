"""The servers that are measured: ours over several stores, NFS-Ganesha, and the least an RPC server can do.

All of them run in one network namespace with nothing but the loopback, so that ports and registrations are their own.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

LOAD = Path(__file__).parent / "load"
SOURCE = Path(__file__).parents[1] / "src"
COMPILED_SOURCE = Path(__file__).parents[1] / "build" / "compiled"
START_SECONDS = 30.0

GANESHA_PACKAGES = "nfs-ganesha nfs-ganesha-mem nfs-ganesha-vfs rpcbind nfs-common"
GANESHA = """
NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = 20490; MNT_Port = 20491; NLM_Port = 20492; Rquota_Port = 20493;
    Enable_NLM = true; Enable_RQUOTA = false; NSM_Use_Caller_Name = true;
    Plugins_Dir = "/usr/lib/x86_64-linux-gnu/ganesha"; }}
NFSV4 {{ Graceless = true; }}
EXPORT_DEFAULTS {{ Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Protocols = 3; Transports = TCP; }}
LOG {{ Default_Log_Level = CRIT; }}
EXPORT {{ Export_Id = 1; Path = "/mem"; Pseudo = "/mem"; FSAL {{ Name = MEM; }} }}
EXPORT {{ Export_Id = 2; Path = "{tmpfs}"; Pseudo = "/tmpfs"; Filesystem_id = 192.168; FSAL {{ Name = VFS; }} }}
EXPORT {{ Export_Id = 3; Path = "{disk}"; Pseudo = "/disk"; FSAL {{ Name = VFS; }} }}
"""

OURS = """
[server]
listen = ["127.0.0.1"]
port = {port}
portmap = "off"
data = "{data}"
[metrics]
listen = ""
[api]
listen = ""
[locks]
grace_seconds = 0
max_per_file = 1000000
max_per_client = 1000000
max_total = 1000000
max_waiters_per_file = 10000
[stores.meta]
kind = "{metadata}"
[stores.files]
kind = "{content}"
{options}
[[shares]]
name = "/export"
squash = "none"
durability = "{durability}"
"""


@dataclass(frozen=True)
class Target:
    """One export of one running server, as the load generator is told of it."""

    name: str
    port: int
    mount_port: int
    lock_port: int
    export: str
    pid: int
    is_canned: bool = False
    options: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        return [
            *("--port", str(self.port), "--mport", str(self.mount_port), "--lport", str(self.lock_port)),
            *("--export", self.export, "--pid", str(self.pid), "--label", self.name, *self.options),
        ]


@dataclass
class Peers:
    """Starts servers and stops them all at the end."""

    directory: Path
    tmpfs: Path
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def start(
        self, command: list[str], name: str, *, ports: tuple[int, ...], environment: dict[str, str] | None = None
    ) -> int:
        """Run in the background until the end; the process id.  Raises RuntimeError if it does not listen."""
        log = (self.directory / f"{name}.log").open("ab")
        self._stack.callback(log.close)
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **(environment or {})}
        )
        self._stack.callback(_end, process)
        for port in ports:
            _wait_for(process, name, port, self.directory / f"{name}.log")
        return process.pid

    def ours(
        self,
        name: str,
        port: int,
        *,
        metadata: str,
        content: str,
        durability: str = "durable",
        on_tmpfs: bool = False,
        source: Path = SOURCE,
    ) -> Target:
        data = (self.tmpfs if on_tmpfs else self.directory) / f"data-{port}"
        config = self.directory / f"{port}.toml"
        options = "capacity_bytes = 8589934592" if content == "memory" else ""
        config.write_text(
            OURS.format(
                port=port, data=data, metadata=metadata, content=content, durability=durability, options=options
            )
        )
        pid = self.start(
            [sys.executable, "-m", "dittofs", "serve", "--config", str(config)],
            name.replace(" ", "-"),
            ports=(port,),
            environment={"PYTHONPATH": str(source)},
        )
        return Target(name, port, port, port, "/export", pid)

    def ganesha(self) -> list[Target]:
        """Over memory, over a tmpfs and over the disk of the working directory: one process."""
        tmpfs, disk = self.tmpfs / "ganesha", self.directory / "ganesha"
        for path in (tmpfs, disk, self.directory / "statd" / "sm", self.directory / "statd" / "sm.bak"):
            path.mkdir(parents=True)
        config = self.directory / "ganesha.conf"
        config.write_text(GANESHA.format(tmpfs=tmpfs, disk=disk))
        self.start(["rpcbind", "-f", "-w"], "rpcbind", ports=(111,))
        self.start(["rpc.statd", "-F", "--no-notify", "-P", str(self.directory / "statd")], "statd", ports=())
        log, pidfile = self.directory / "ganesha-own.log", self.directory / "ganesha.pid"
        pid = self.start(
            ["ganesha.nfsd", "-F", "-f", str(config), "-L", str(log), "-p", str(pidfile)],
            "ganesha",
            ports=(20490, 20491, 20492),
        )
        names = {"Ganesha MEM": "/mem", "Ganesha VFS tmpfs": str(tmpfs), "Ganesha VFS disk": str(disk)}
        return [
            Target(name, 20490, 20491, 20492, path, pid, options=("--no-verify",) if path == "/mem" else ())
            for name, path in names.items()
        ]

    def rpcnull(self, port: int, entries: int) -> Target:
        pid = self.start([str(LOAD / "rpcnull"), "-c", "-e", str(entries), str(port)], "rpcnull", ports=(port,))
        return Target("rpcnull (the limit)", port, port, port, "/", pid, is_canned=True, options=("--no-verify",))


def has_ganesha() -> bool:
    return os.geteuid() == 0 and all(shutil.which(name) for name in ("ganesha.nfsd", "rpcbind", "rpc.statd"))


def enter_namespace() -> None:
    """Run this script again where nothing but the loopback is, and /run is ours; once, and only as root."""
    if os.geteuid() != 0 or os.environ.get("DITTOFS_BENCH_NAMESPACE"):
        return
    prepare = 'ip link set lo up && mount -t tmpfs tmpfs /run && mkdir -p /run/rpcbind /run/ganesha && exec "$@"'
    os.environ["DITTOFS_BENCH_NAMESPACE"] = "1"
    os.execvp("unshare", ["unshare", "-n", "-m", "sh", "-c", prepare, "sh", sys.executable, *sys.argv])


@contextmanager
def temporary_tmpfs(directory: Path) -> Iterator[Path]:
    """A tmpfs below the directory as root; else whatever /dev/shm is."""
    if os.geteuid() == 0:
        path = directory / "tmpfs"
        path.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8g", "tmpfs", path], check=True)
        try:
            yield path
        finally:
            subprocess.run(["umount", "-l", path], check=False)
        return
    path = Path("/dev/shm") / f"dittofs-bench-{os.getpid()}"
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], name: str, port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{name} does not listen on port {port}\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.05)
