"""Network namespaces of our own: a whole machine's ports, 111 included, and an address that is not loopback.

    with namespace() as network, ServerProcess(path, within=network.enter) as server:
        network.within(lambda: TcpTransport("127.0.0.1", 111))

Sockets belong to the namespace of the thread that made them, wherever they are used.
"""

import contextlib
import ctypes
import itertools
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

ADDRESS = "198.18.0.1"
"""Of a network for tests (RFC 2544), on an interface that leads nowhere."""

CLONE_NEWNET = 0x4000_0000

_numbers = itertools.count()


@dataclass(frozen=True)
class Namespace:
    """A network of its own."""

    name: str

    @property
    def enter(self) -> tuple[str, ...]:
        """What to run a command by."""
        return ("ip", "netns", "exec", self.name)

    def with_run_directory(self, directory: Path) -> tuple[str, ...]:
        """The same, with this directory in the place of /run."""
        return (*self.enter, "unshare", "-m", "sh", "-c", 'mount --bind "$0" /run && exec "$@"', str(directory))

    def enter_thread(self) -> None:
        """Put the thread that calls this into the namespace, for good."""
        with open(f"/run/netns/{self.name}", "rb") as there:
            if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")

    def within(self, make: Callable[[], T]) -> T:
        """Call it in a thread that is in the namespace."""
        made: list[T] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                self.enter_thread()
                made.append(make())
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return made[0]


@contextlib.contextmanager
def namespace(*tools: str) -> Iterator[Namespace]:
    """One for the block; skips the test where there are none, or where one of the tools is missing."""
    if os.geteuid() != 0:
        pytest.skip("a network namespace needs root")
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    if missing := [tool for tool in ("ip", "unshare", *tools) if not shutil.which(tool, path=path)]:
        pytest.skip(f"not installed: {', '.join(missing)} (tests/install-packages installs them)")
    name = f"dittofs-{os.getpid()}-{next(_numbers)}"
    added = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if added.returncode:
        pytest.skip(f"no network namespaces here: {added.stderr.strip()}")
    try:
        for command in (
            ["link", "set", "lo", "up"],
            ["addr", "add", f"{ADDRESS}/32", "dev", "lo"],
            ["route", "add", "default", "dev", "lo", "src", ADDRESS],
        ):
            subprocess.run(["ip", "-n", name, *command], check=True)
        yield Namespace(name)
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)
