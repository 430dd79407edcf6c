"""READDIRPLUS of a large directory, unchanged and with random changes between the scans.

    python bench/listing.py [--entries N] [--changes N] [--scans N]
    python bench/listing.py --port 2049 --mount-port 20048 --export /srv --pid PID      (any server that runs here)

Between two scans so many entries are made, removed, renamed or given another mode, in turn.  One call is under way at a
time; told is what the server takes: the time from call to answer, without what this client does with it, and the CPU of
the server's process.  The first scan, which finds nothing prepared, is a line of its own.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from peers import Peers, Target, enter_namespace, has_ganesha, temporary_tmpfs

from dittofs.client.mount import mount
from dittofs.client.nfs3 import EXCHANGES, NO_VERIFIER, Nfs3Client, attributes, result_of
from dittofs.client.transports import TcpTransport
from dittofs.protocols.nfs3 import types as t
from dittofs.rpc.calling import auth_sys

ANSWER_BYTES = 65_536
UNDER_WAY = 64
SEED = 1813


class Measured:
    """What scans took in total."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.entries = 0
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        self.names: list[bytes] = []

    def scan(self, client: Nfs3Client, directory: bytes) -> None:
        self.names = []
        transport, exchange = client.transport, EXCHANGES["READDIRPLUS"]
        cookie, verifier, at_end = 0, NO_VERIFIER, False
        while not at_end:
            arguments = t.READDIRPLUS3args(directory, cookie, verifier, ANSWER_BYTES, ANSWER_BYTES)
            cpu, began = cpu_seconds(self._pid), time.perf_counter()
            xid = transport.send(exchange, arguments)
            record = transport.receive_record(xid)
            self.seconds += time.perf_counter() - began
            self.cpu_seconds += cpu_seconds(self._pid) - cpu
            found = result_of("READDIRPLUS", exchange.decode(record, xid))
            self.names += [entry.name for entry in found.reply.entries]
            cookie, verifier, at_end = found.reply.entries[-1].cookie, found.cookieverf, found.reply.eof
        self.entries += len(self.names)

    def line(self, name: str, what: str) -> str:
        return (
            f"{name:16} {what:10} {self.entries / self.seconds:12,.0f} entries/s "
            f"{1e6 * self.cpu_seconds / self.entries:8.3f} CPU µs per entry"
        )


def cpu_seconds(pid: int) -> float:
    """Of all threads that live; finer than the ticks of /proc/PID/stat."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def make(client: Nfs3Client, directory: bytes, names: list[bytes]) -> None:
    how = t.createhow3(t.createmode3.UNCHECKED, attributes(mode=0o644))
    exchange = EXCHANGES["CREATE"]
    for start in range(0, len(names), UNDER_WAY):
        sent = [
            client.transport.send(exchange, t.CREATE3args(t.diropargs3(directory, name), how))
            for name in names[start : start + UNDER_WAY]
        ]
        for xid in sent:
            result_of("CREATE", client.transport.receive(xid, exchange))


def change(client: Nfs3Client, directory: bytes, names: list[bytes], chance: random.Random, count: int) -> None:
    for number in range(count):
        index = chance.randrange(len(names))
        fresh = b"changed-%d" % chance.randrange(2**60)
        match number % 4:
            case 0:
                make(client, directory, [fresh])
                names.append(fresh)
            case 1:
                client.remove(directory, names.pop(index))
            case 2:
                client.rename(directory, names[index], directory, fresh)
                names[index] = fresh
            case _:
                client.setattr(
                    client.lookup(directory, names[index]).object, attributes(mode=chance.choice((0o600, 0o640)))
                )


def measure(target: Target, arguments: argparse.Namespace) -> Iterator[str]:
    credential = auth_sys(uid=0, gid=0)
    with TcpTransport(arguments.address, target.mount_port, credential=credential) as transport:
        root = mount(transport, target.export).fhandle
    with TcpTransport(arguments.address, target.port, credential=credential) as transport:
        client = Nfs3Client(transport)
        directory = client.mkdir(root, b"listing-%d" % time.time_ns()).obj
        assert directory is not None, "MKDIR tells the handle"
        names = [b"file-%06d.dat" % number for number in range(arguments.entries)]
        make(client, directory, names)
        first, unchanged, changed = Measured(target.pid), Measured(target.pid), Measured(target.pid)
        first.scan(client, directory)
        chance = random.Random(SEED)
        for _ in range(arguments.scans):
            unchanged.scan(client, directory)
        for _ in range(arguments.scans):
            change(client, directory, names, chance, arguments.changes)
            changed.scan(client, directory)
            assert sorted(changed.names) == sorted([b".", b"..", *names]), "the listing is not what is there"
        yield first.line(target.name, "first")
        yield unchanged.line(target.name, "unchanged")
        yield changed.line(target.name, "changed")


def servers(arguments: argparse.Namespace, peers: Peers) -> Iterator[Target]:
    if arguments.port:
        yield Target("server", arguments.port, arguments.mount_port, 0, arguments.export, arguments.pid)
        return
    yield peers.ours("memory", 13001, metadata="memory", content="memory")
    yield peers.ours("embedded", 13002, metadata="embedded", content="directory")
    if has_ganesha():
        yield from peers.ganesha()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=10)
    parser.add_argument("--scans", type=int, default=20)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--mount-port", type=int, default=0)
    parser.add_argument("--export", default="/export")
    parser.add_argument("--pid", type=int, default=0)
    arguments = parser.parse_args()
    if not arguments.port:
        enter_namespace()
    with tempfile.TemporaryDirectory(prefix="dittofs-bench-") as place:
        directory = Path(place)
        with temporary_tmpfs(directory) as tmpfs, Peers(directory, tmpfs) as peers:
            for target in servers(arguments, peers):
                for line in measure(target, arguments):
                    print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
