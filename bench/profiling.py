"""Where the time of a call goes, function by function: a whole server over memory, called without sockets.

    python bench/profiling.py [--calls N] [--rows N]

The profiler makes every function dearer, small ones most: the shares are for orientation, the µs per call are measured
without it.  Writes bench/results/profile.md.
"""

import argparse
import cProfile
import pstats
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.cost.test_cost_of_calls import REQUESTS, Bench  # noqa: E402

RESULT = ROOT / "bench" / "results" / "profile.md"
REPEATS = 8


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=16)
    arguments = parser.parse_args()
    lines = ["# Where the time of a call goes", "", f"Python {sys.version.split()[0]}, memory store, no sockets."]
    with tempfile.TemporaryDirectory(prefix="dittofs-bench-") as place:
        bench = Bench(Path(place))
        for title in REQUESTS:
            lines += ["", *table(bench, title, arguments.calls, arguments.rows)]
        bench.close()
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text("\n".join(lines) + "\n")
    print(RESULT.read_text())
    return 0


def table(bench: Bench, title: str, calls: int, rows: int) -> list[str]:
    alone = min(seconds(bench, title, calls) for _ in range(REPEATS)) / calls * 1e6
    records = REQUESTS[title](bench, calls)
    profile = cProfile.Profile()
    profile.enable()
    bench.loop.run_until_complete(bench.serve(records))
    profile.disable()
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    total = sum(own for _, _, own, _, _ in stats.values())
    lines = [f"## {title}: {alone:.1f} µs", "", "| share of the profile | calls | function |", "|--:|--:|---|"]
    ordered = sorted(stats.items(), key=lambda item: -item[1][2])
    for (file, line, name), (_, count, own, _, _) in ordered[:rows]:
        where = name if line == 0 else f"{_short(file)}:{line} {name}"
        lines.append(f"| {own / total:.1%} | {count / calls:.1f} | `{where}` |")
    return lines


def seconds(bench: Bench, title: str, calls: int) -> float:
    records = REQUESTS[title](bench, calls)
    began = time.process_time()
    bench.loop.run_until_complete(bench.serve(records))
    return time.process_time() - began


def _short(file: str) -> str:
    """Without the place where this machine keeps it, and without what differs from run to run."""
    if file.startswith("<"):
        return " ".join(file.split()[:3]) + ">"
    return "/".join(Path(file).parts[-2:])


if __name__ == "__main__":
    sys.exit(main())
