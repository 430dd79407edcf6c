"""How cost grows: the server's CPU per call and its memory, with files, locks and connections.

    python bench/growth.py [--files 1000,10000,…] [--locks 10,…] [--connections 1,…] [--name NAME]

Growth matters more than constants: each line is compared with the first of its kind.  Files are made over the wire on
an embedded store (`relaxed`, so that making a million of them takes minutes and not hours); locks are on one file.
Writes bench/results/NAME.md.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from peers import LOAD, Peers, Target, enter_namespace, temporary_tmpfs
from run import RESULTS, generate, machine
from workloads import WIDE, Shape, Workload

CALLS = 40_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=numbers, default=(1_000, 10_000, 100_000, 1_000_000))
    parser.add_argument("--locks", type=numbers, default=(10, 100, 1_000, 10_000, 100_000))
    parser.add_argument("--connections", type=numbers, default=(1, 10, 100, 1_000))
    parser.add_argument("--directory", help="where the data is kept")
    parser.add_argument("--name", default="growth")
    arguments = parser.parse_args()
    enter_namespace()
    subprocess.run(["make", "-s", "-C", LOAD], check=True)
    lines = ["# How cost grows", "", *(f"- {key}: {value}" for key, value in machine().items()), ""]
    lines += ["| what there is | call | CPU µs per call | to the first | RssAnon MiB |", "|---|---|--:|--:|--:|"]
    lines += [*files(arguments), *connections(arguments), *locks(arguments)]
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{arguments.name}.md"
    path.write_text("\n".join(lines) + "\n")
    print(path.read_text())
    return 0


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


class Series:
    """Lines of one kind, each with its ratio to the first."""

    def __init__(self) -> None:
        self._first: dict[str, float] = {}

    def line(self, there_is: str, target: Target, call: str, cpu: float) -> str:
        print(f"{there_is}: {call} {cpu:.2f} µs", file=sys.stderr)
        if not cpu:  # the system counts in hundredths of a second
            return f"| {there_is} | {call} | too short to tell | | {memory(target):.0f} |"
        ratio = cpu / self._first.setdefault(call, cpu)
        return f"| {there_is} | {call} | {cpu:.2f} | {ratio:.2f}x | {memory(target):.0f} |"


def files(arguments: argparse.Namespace) -> list[str]:
    lines, series = [], Series()
    for count in arguments.files:
        with server(arguments.directory) as target:
            for call in ("getattr", "lookup"):
                options = ("--names", str(count), "--keep")
                lines.append(series.line(f"{count:,} files", target, call.upper(), cpu(target, call, options, WIDE)))
            lines.append(series.line(f"{count:,} files", target, "CREATE", cpu(target, "create", ("--keep",), WIDE)))
    return lines


def connections(arguments: argparse.Namespace) -> list[str]:
    lines, series = [], Series()
    for count in arguments.connections:
        with server(arguments.directory) as target:
            cost = cpu(target, "getattr", (), Shape(count, max(1, 128 // count)))
            lines.append(series.line(f"{count:,} connections", target, "GETATTR", cost))
    return lines


def locks(arguments: argparse.Namespace) -> list[str]:
    lines, series = [], Series()
    for count in arguments.locks:
        with server(arguments.directory) as target:
            options = ("--locks", str(count))
            cost = cpu(target, "lockheld", options, Shape(1, min(32, count)), calls=2 * count)
            lines.append(series.line(f"up to {count:,} locks on a file", target, "LOCK and UNLOCK", cost))
    return lines


@contextmanager
def server(directory: str | None) -> Iterator[Target]:
    """A fresh server over an embedded store."""
    with tempfile.TemporaryDirectory(prefix="dittofs-growth-", dir=directory) as place:
        with temporary_tmpfs(Path(place)) as tmpfs, Peers(Path(place), tmpfs) as peers:
            yield peers.ours("DittoFS", 13021, metadata="embedded", content="directory", durability="relaxed")


def cpu(target: Target, op: str, options: tuple[str, ...], shape: Shape, *, calls: int = CALLS) -> float:
    run = generate(target, Workload(op, op, options, ops=calls), shape, 0.0)
    if run["errors"]:
        raise SystemExit(f"{op}: {run}")
    return float(run["srv_cpu_us_per_op"])


def memory(target: Target) -> float:
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{target.pid}/status").read_text())
    assert found is not None, "Linux tells RssAnon"
    return int(found[1]) / 1024


if __name__ == "__main__":
    sys.exit(main())
