"""A real server and simulated client hosts that lock its files: what the tests of NLM share."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dittofs.client.nfs3 import attributes
from dittofs.client.nlm import LockOwner, NlmClient, Range
from dittofs.protocols.nlm.types import nlm4_stats
from tests.end_to_end.server_process import MEMORY, ONE_SHARE, MountedClient, ServerProcess
from tests.hosts.host import Host
from tests.hosts.network import Network, skip_unless_root

GRANTED = nlm4_stats.NLM4_GRANTED
DENIED = nlm4_stats.NLM4_DENIED
NOLOCKS = nlm4_stats.NLM4_DENIED_NOLOCKS
BLOCKED = nlm4_stats.NLM4_BLOCKED
GRACE = nlm4_stats.NLM4_DENIED_GRACE_PERIOD
DEADLCK = nlm4_stats.NLM4_DEADLCK
ROFS = nlm4_stats.NLM4_ROFS
STALE_FH = nlm4_stats.NLM4_STALE_FH
FBIG = nlm4_stats.NLM4_FBIG
FAILED = nlm4_stats.NLM4_FAILED

ALICE = LockOwner(1, b"alice")
BOB = LockOwner(2, b"bob")
CAROL = LockOwner(3, b"carol")


@dataclass(slots=True)
class LockWorld:
    """A server, and hosts that come and go with it."""

    server: ServerProcess
    network: Network
    stack: ExitStack
    nfs: MountedClient
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def host(self, name: bytes | None = None, **how: Any) -> Host:
        return self.stack.enter_context(Host(self.network, name or b"host-%d" % next(self._numbers), **how))

    def nlm(self, host: Host, **how: Any) -> NlmClient:
        return host.nlm(self.server.port, **how)

    def file(self, *, mode: int = 0o666, uid: int | None = None) -> Range:
        """A new file, all of it."""
        name = b"file-%d" % next(self._numbers)
        made = self.nfs.create(self.nfs.root, name, attributes(mode=mode, uid=uid))
        assert made.obj is not None, "CREATE tells the handle"
        return Range(handle=made.obj)

    def remove(self, number_of_files: int) -> None:
        """What `file` made last."""
        self.nfs.remove(self.nfs.root, b"file-%d" % number_of_files)


@contextmanager
def lock_world(directory: Path, config: str = MEMORY + ONE_SHARE, **server: Any) -> Iterator[LockWorld]:
    skip_unless_root()
    with ExitStack() as stack:
        process = stack.enter_context(ServerProcess(directory, config, **server))
        network = stack.enter_context(Network())
        nfs = stack.enter_context(process.connect())
        yield LockWorld(process, network, stack, nfs)
