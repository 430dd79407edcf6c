"""A `dittofs serve` that starts without importing anything: forked from a process that has done so already.

It is killed with SIGKILL like any other, and begins like any other from what lies on the disk.  Only the second that
Python takes to read its modules is saved, at each of hundreds of starts.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from typing import IO, Any, Self

from tests.end_to_end.server_process import ServerProcess

# Forks for each line of JSON that comes with the descriptors of its standard output and error; tells the child's pid.
NURSERY = """
import itertools, json, os, random, signal, socket, sys
import dittofs.server, dittofs.cli.serve
from dittofs.cli.main import main
from dittofs.net import outbound

parent = socket.socket(fileno=int(sys.argv[1]))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    data, descriptors, _, _ = socket.recv_fds(parent, 65536, 2)
    if not data:
        break
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        parent.close()
        os.dup2(descriptors[0], 1)
        os.dup2(descriptors[1], 2)
        random.seed()
        outbound._xids = itertools.count(random.randrange(2**31))
        sys.argv = ["dittofs", *json.loads(data)]
        main()
        os._exit(0)
    for descriptor in descriptors:
        os.close(descriptor)
    parent.send(b"%d" % child)
"""


class ForkedProcess:
    """What `ServerProcess` needs of a process that is not its own child."""

    def __init__(self, pid: int, stdout: IO[bytes]):
        self.pid = pid
        self.stdout = stdout
        self._descriptor = os.pidfd_open(pid)

    def poll(self) -> int | None:
        return 0 if select.select([self._descriptor], [], [], 0)[0] else None

    def wait(self, timeout: float | None = None) -> int:
        if not select.select([self._descriptor], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("dittofs serve", timeout or 0)
        return 0

    def send_signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@dataclass(slots=True)
class ForkedServer(ServerProcess):
    """A `ServerProcess` whose starts are quick."""

    _nursery: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _line: socket.socket | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(120)
        with theirs:
            self._nursery = subprocess.Popen(
                [sys.executable, "-c", NURSERY, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                env=self._environment(),
                pass_fds=[theirs.fileno()],
            )
        try:
            return ServerProcess.__enter__(self)
        except BaseException:
            self._end_nursery()
            raise

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        try:
            ServerProcess.__exit__(self, kind, *exception)
        finally:
            self._end_nursery()

    def _end_nursery(self) -> None:
        assert self._line is not None
        assert self._nursery is not None
        self._line.close()  # it reads the end, and ends
        self._nursery.wait(30)

    def launch(self) -> None:
        assert self._process is None, "the server runs already"
        assert self._line is not None
        ours, theirs = os.pipe()
        with (self.directory / "server.log").open("ab") as log:
            command = json.dumps(self.command("serve")[3:]).encode()
            socket.send_fds(self._line, [command], [theirs, log.fileno()])
        os.close(theirs)
        pid = int(self._line.recv(64))
        made: Any = ForkedProcess(pid, os.fdopen(ours, "rb"))
        self._process = made
