"""Measure DittoFS beside NFS-Ganesha and beside the least an RPC server can do, in one run.

    python bench/run.py [--quick] [--rounds N] [--seconds S] [--only WORD] [--name NAME]

All servers are started first; then every workload runs on each of them in turn, several rounds, and medians are
compared: on a busy machine a ratio within one run is worth more than a figure.  Writes
bench/results/NAME.{json,md,svg}.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import report
import workloads
from peers import COMPILED_SOURCE, GANESHA_PACKAGES, LOAD, Peers, Target, enter_namespace, has_ganesha, temporary_tmpfs
from workloads import Shape, Workload

RESULTS = Path(__file__).parent / "results"
Key = tuple[str, str, str]
"""Workload, shape, server."""


def main() -> int:
    arguments = parse()
    enter_namespace()
    subprocess.run(["make", "-s", "-C", LOAD], check=True)
    chosen = workloads.QUICK if arguments.quick else workloads.ALL
    if arguments.only:
        chosen = tuple(each for each in chosen if arguments.only.lower() in f"{each.title} {each.op}".lower())
        if not chosen:
            print(f"no workload is called {arguments.only!r}; there are {', '.join(w.op for w in workloads.ALL)}")
            return 2
    with tempfile.TemporaryDirectory(prefix="dittofs-bench-", dir=arguments.directory) as place:
        directory = Path(place)
        with temporary_tmpfs(directory) as tmpfs, Peers(directory, tmpfs) as peers:
            targets = start_all(peers)
            raw = raw_flushes(directory)
            found = measure(targets, chosen, rounds=arguments.rounds, seconds=arguments.seconds)
    facts = {"raw flushes per second": round(raw), **machine()}
    RESULTS.mkdir(exist_ok=True)
    name = arguments.name or ("quick" if arguments.quick else "latest")
    report.write(RESULTS / name, medians(found), facts)
    print((RESULTS / f"{name}.md").read_text())
    errors = sum(run["errors"] for runs in found.values() for run in runs)
    if errors:
        print(f"{errors} errors were counted: see {RESULTS / name}.json")
    return 1 if errors else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="a choice of workloads, one short round: two to three minutes"
    )
    parser.add_argument("--rounds", type=int, default=0, help="default 3; quick: 1")
    parser.add_argument("--seconds", type=float, default=0.0, help="of each run (default 1; quick: 0.3)")
    parser.add_argument("--only", help="workloads whose name contains this")
    parser.add_argument("--directory", help="where the data is kept: the disk that is measured")
    parser.add_argument("--name", help="of the results")
    arguments = parser.parse_args()
    arguments.seconds = arguments.seconds or (0.3 if arguments.quick else 1.0)
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 3)
    return arguments


def start_all(peers: Peers) -> list[Target]:
    targets = [
        peers.ours("DittoFS memory", 13001, metadata="memory", content="memory"),
        peers.ours("DittoFS embedded durable", 13002, metadata="embedded", content="directory"),
        peers.ours("DittoFS embedded relaxed", 13003, metadata="embedded", content="directory", durability="relaxed"),
    ]
    if COMPILED_SOURCE.exists():
        targets += [
            peers.ours("DittoFS memory compiled", 13004, metadata="memory", content="memory", source=COMPILED_SOURCE),
            peers.ours(
                "DittoFS embedded durable compiled",
                13005,
                metadata="embedded",
                content="directory",
                source=COMPILED_SOURCE,
            ),
        ]
    else:
        print("the compiled server is not measured: make compiled builds it")
    if has_ganesha():
        targets += peers.ganesha()
    else:
        print(f"NFS-Ganesha is not measured: it needs root and {GANESHA_PACKAGES}")
    return [*targets, peers.rpcnull(13009, entries=10_000)]


def measure(
    targets: list[Target], chosen: tuple[Workload, ...], *, rounds: int, seconds: float
) -> dict[Key, list[dict[str, Any]]]:
    """Every workload on every server, round by round, so that a disturbance meets all of them; and each time in another
    order, for whoever writes first on a machine pays for memory that nobody has used yet."""
    found: dict[Key, list[dict[str, Any]]] = defaultdict(list)
    for number in range(rounds):
        for workload in chosen:
            for shape in workload.shapes:
                first = number * len(targets) // max(rounds, 1)
                for target in (*targets[first:], *targets[:first]):
                    if fits(workload, target):
                        run = generate(target, workload, shape, seconds)
                        found[(workload.title, str(shape), target.name)].append(run)
        print(f"round {number + 1} of {rounds} is done", file=sys.stderr)
    return found


def fits(workload: Workload, target: Target) -> bool:
    if target.is_canned:
        return workload.is_canned
    if workload.needs_content and target.name == "Ganesha MEM":
        return False  # it keeps no data
    return not (workload.needs_locks and target.name == "Ganesha VFS disk")  # locks do not care where the file is


def generate(target: Target, workload: Workload, shape: Shape, seconds: float) -> dict[str, Any]:
    bound = ("--ops", str(workload.ops)) if workload.ops else ("--seconds", f"{seconds:g}")
    command = [
        str(LOAD / "nfsload"),
        *target.arguments(),
        *("--conns", str(shape.connections), "--depth", str(shape.depth)),
        *("--op", workload.op, *workload.options, *bound, "--json", "--timeout", "30", "--grace", "10"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode not in (0, 1) or not lines:
        print(f"{' '.join(command)}\n{done.stdout}{done.stderr}", file=sys.stderr)
        return {"errors": 1, "failed": (done.stdout + done.stderr)[-500:], "figure": 0.0}
    run: dict[str, Any] = json.loads(lines[-1])
    run["figure"] = run.get(workload.figure) or 0.0
    run["unit"] = workload.figure
    return run


def medians(found: dict[Key, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """One row per workload, shape and server."""
    rows = []
    for (title, shape, server), runs in found.items():
        row: dict[str, Any] = {"workload": title, "shape": shape, "server": server, "rounds": len(runs)}
        row["unit"] = next((run["unit"] for run in runs if "unit" in run), "")
        row["errors"] = sum(run["errors"] for run in runs)
        for key in ("figure", "p50_us", "p99_us", "srv_cpu_us_per_op", "srv_rss_kib", "gen_cpu_frac"):
            values = [run[key] for run in runs if isinstance(run.get(key), int | float)]
            row[key] = statistics.median(values) if values else None
        tenths = [run["ops_per_s_by_tenth"] for run in runs if run.get("ops_per_s_by_tenth")]
        if tenths:
            row["tenths"] = [statistics.median(each) for each in zip(*tenths, strict=True)]
        rows.append(row)
    return rows


def raw_flushes(directory: Path, writes: int = 300) -> float:
    """4 KiB overwritten and flushed in a preallocated file, per second: what a durable CREATE at 1x1 is held to."""
    from time import perf_counter

    descriptor = os.open(directory / "raw", os.O_RDWR | os.O_CREAT)
    try:
        os.write(descriptor, bytes(1 << 20))
        os.fsync(descriptor)
        began = perf_counter()
        for number in range(writes):
            os.pwrite(descriptor, b"x" * 4096, number % 256 * 4096)
            os.fdatasync(descriptor)
        return writes / (perf_counter() - began)
    finally:
        os.close(descriptor)


def machine() -> dict[str, str]:
    def version(command: list[str]) -> str:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError:
            return "not installed"
        return (done.stdout + done.stderr).strip().splitlines()[0] if done.stdout or done.stderr else "unknown"

    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    return {
        "processor": f"{model}, {os.cpu_count()} cores",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "ganesha": version(["ganesha.nfsd", "-v"]),
        "revision": version(["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]),
    }


if __name__ == "__main__":
    sys.exit(main())
