"""A PostgreSQL of the tests' own: in a temporary directory, on a free port of this machine, gone at the end."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Self

START_SECONDS = 60
OWNER = "dittofs"


def binaries() -> Path | None:
    """Where Debian, or the search path, has the programs of the server; the newest of several."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    program = shutil.which("initdb")
    return Path(program).resolve().parent if program else None


def why_not() -> str | None:
    """Why no PostgreSQL can be started here."""
    if binaries() is None:
        return "no PostgreSQL server is installed (Debian: postgresql)"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "PostgreSQL does not run as root, and setpriv is missing (Debian: util-linux)"
    return None


class PostgresInstance:
    """Started when the block begins.  Everybody may connect, from this machine; the test `wrong password` makes a role
    with a password, and asks for it by the settings of its own database."""

    def __init__(self, *, fsync: bool = False):
        self._fsync = fsync
        self._home = Path(tempfile.mkdtemp(prefix="dittofs-pg-"))
        self.port = _free_port()
        self._databases = 0

    def __enter__(self) -> Self:
        try:
            if os.geteuid() == 0:
                shutil.chown(self._home, "postgres")
            self._run("initdb", "--auth=trust", "--no-sync", f"--username={OWNER}", "--pgdata", str(self._data))
            # A password is asked for where a test asks for that.
            hba = self._data / "pg_hba.conf"
            hba.write_text(
                "local all all trust\nhost all locked 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"
            )
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop(mode="immediate")
        shutil.rmtree(self._home, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self._home / "data"

    def start(self) -> None:
        options = f"-c listen_addresses=127.0.0.1 -p {self.port} -k {self._home}"
        if not self._fsync:
            options += " -c fsync=off"
        self._run("pg_ctl", "--pgdata", str(self._data), "-w", "-l", str(self._home / "log"), "-o", options, "start")

    def stop(self, *, mode: str = "fast") -> None:
        if (self._data / "postmaster.pid").exists():
            self._run("pg_ctl", "--pgdata", str(self._data), "-m", mode, "stop")

    def restart(self, *, mode: str = "fast") -> None:
        self.stop(mode=mode)
        self.start()

    def pause(self) -> None:
        """Let no process of the server do anything until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        leader = int((self._data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{leader}/task/{leader}/children").read_text().split()
        for process in [leader, *map(int, children)]:
            os.kill(process, number)

    def new_database(self) -> str:
        """The dsn of an empty database."""
        self._databases += 1
        name = f"test_{os.getpid()}_{self._databases}"
        self.sql(f"CREATE DATABASE {name}")
        return self.dsn(name)

    def dsn(self, database: str = "postgres", *, user: str = OWNER, password: str = "", port: int = 0) -> str:
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@127.0.0.1:{port or self.port}/{database}"

    def local_dsn(self, database: str) -> str:
        """The same over a socket in the file system, which a server in another network namespace can reach."""
        return f"postgresql://{OWNER}@/{database}?host={self._home}&port={self.port}"

    def sql(self, *statements: str, database: str = "postgres") -> str:
        """What psql prints for statements, one transaction each."""
        command = ["psql", "--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1", self.dsn(database)]
        for statement in statements:
            command += ["-c", statement]
        done = subprocess.run(self._command(*command), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            self._command(program, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT if program == "initdb" else subprocess.DEVNULL,
            cwd=self._home,
            timeout=START_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            log = self._home / "log"
            raise AssertionError(f"{program} failed: {done.stdout!r} {log.read_text() if log.exists() else ''}")

    def _command(self, program: str, *arguments: str) -> list[str]:
        where = binaries()
        assert where is not None, "installed"
        command = [str(where / program), *arguments]
        if os.geteuid() == 0:
            command[:0] = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        return command


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
