"""Live servers on one database, and calls to several of them at the same moment."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from dittofs.client.nfs3 import Nfs3Error
from dittofs.protocols.nfs3.types import nfsstat3
from tests.end_to_end.server_process import ONE_SHARE, MountedClient, ServerProcess

T = TypeVar("T")

OK = nfsstat3.NFS3_OK
METADATA_ONLY = """
[stores.meta]
kind = "postgres"
dsn = "{dsn}"
[stores.files]
kind = "memory"
"""


def server_on(directory: Path, dsn: str, more: str = "", **options: str) -> ServerProcess:
    return ServerProcess(directory, METADATA_ONLY.format(dsn=dsn) + ONE_SHARE + more, **options)  # type: ignore[arg-type]


class Pair:
    """Two servers with a client each."""

    def __init__(self, servers: Sequence[ServerProcess], clients: Sequence[MountedClient]):
        self.servers = servers
        self.one, self.other = clients

    def new_directory(self, name: str) -> bytes:
        return bytes(self.one.mkdir(self.one.root, name.encode()).obj)


@contextmanager
def two_servers(directory: Path, dsn: str) -> Iterator[Pair]:
    with ExitStack() as running:
        servers = [running.enter_context(server_on(directory / name, dsn)) for name in ("one", "other")]
        clients = [running.enter_context(server.connect()) for server in servers]
        yield Pair(servers, clients)


def status_of(call: Callable[..., object], *arguments: object) -> nfsstat3:
    try:
        call(*arguments)
    except Nfs3Error as refused:
        return refused.status
    return OK


def at_once(*calls: Callable[[], T]) -> list[T]:
    """Begin all of them at one moment; each has a connection of its own."""
    ready = threading.Barrier(len(calls))

    def begin(call: Callable[[], T]) -> T:
        ready.wait(30)
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(begin, calls))
