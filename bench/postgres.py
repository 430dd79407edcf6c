"""Measure metadata in PostgreSQL, with its flushes, beside the embedded store, in one run; and count the journeys.

    python bench/postgres.py [--seconds S] [--rounds N]

Prints GETATTR, LOOKUP and CREATE at 8 connections of 16 calls each over both stores; CREATE one after the other, which
is one transaction per operation; and queries per operation, as the metrics of the server count them.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.end_to_end.endpoints import scrape, value  # noqa: E402
from tests.end_to_end.server_process import EMBEDDED, ONE_SHARE, SHARE, ServerProcess, over_postgres  # noqa: E402
from tests.postgres.instance import PostgresInstance, why_not  # noqa: E402

LOAD = ROOT / "bench" / "load"
WIDE = (8, 16)
ALONE = (1, 1)


def measure(server: ServerProcess, op: str, shape: tuple[int, int], seconds: float) -> float:
    """Operations per second."""
    command = [LOAD / "nfsload", "--port", str(server.port), "--mport", str(server.port), "--export", SHARE, "--json"]
    command += ["--op", op, "--conns", str(shape[0]), "--depth", str(shape[1]), "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120 + 10 * seconds, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return float(json.loads(done.stdout.splitlines()[0])["ops_per_s"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    reason = why_not()
    if reason is not None:
        print(f"not measured: {reason}")
        return 0
    subprocess.run(["make", "-s", "-C", LOAD], check=True)
    with tempfile.TemporaryDirectory(prefix="dittofs-bench-") as place, PostgresInstance(fsync=True) as postgres:
        local = ServerProcess(Path(place) / "embedded", EMBEDDED + ONE_SHARE)
        remote = ServerProcess(Path(place) / "postgres", over_postgres(postgres.new_database()) + ONE_SHARE)
        with local, remote:
            return compare(local, remote, arguments.seconds, arguments.rounds)


def compare(local: ServerProcess, remote: ServerProcess, seconds: float, rounds: int) -> int:
    found: dict[tuple[str, str], list[float]] = {}
    journeys: dict[str, list[float]] = {}
    for _ in range(rounds):
        for op, shape in (("getattr", WIDE), ("lookup", WIDE), ("create", WIDE), ("create", ALONE)):
            title = f"{op.upper()} {shape[0]}x{shape[1]}"
            found.setdefault((title, "embedded"), []).append(measure(local, op, shape, seconds))
            before = queries_of(remote)
            ops = measure(remote, op, shape, seconds)
            found.setdefault((title, "postgres"), []).append(ops)
            journeys.setdefault(title, []).append((queries_of(remote) - before) / (ops * seconds))
    median = {key: statistics.median(values) for key, values in found.items()}
    print(f"{'':16}{'embedded':>12}{'postgres':>12}{'ratio':>8}{'queries per op':>16}   (ops/s, medians of {rounds})")
    for title, count in journeys.items():
        embedded, postgres = median[(title, "embedded")], median[(title, "postgres")]
        each = statistics.median(count)
        print(f"{title:16}{embedded:12,.0f}{postgres:12,.0f}{postgres / embedded:8.0%}{each:16.3f}")
    grouped = median[("CREATE 8x16", "postgres")] / median[("CREATE 1x1", "postgres")]
    print(f"CREATE together against one transaction per operation: {grouped:.1f} times")
    is_met = grouped >= 3
    for op in ("GETATTR", "LOOKUP"):
        least = min(15_000.0, 0.2 * median[(f"{op} 8x16", "embedded")])
        is_met = is_met and median[(f"{op} 8x16", "postgres")] >= least
        print(f"{op}: at least {least:,.0f} ops/s are asked for")
    print("met" if is_met else "NOT MET")
    return 0 if is_met else 1


def queries_of(server: ServerProcess) -> float:
    """Journeys to the database so far."""
    return value(scrape(server), "dittofs_store_queries_total")


if __name__ == "__main__":
    sys.exit(main())
