"""What looking at many locks costs the file service: GETATTR while they are listed over REST, again and again.

    python bench/explorer.py [--locks N] [--files N] [--seconds S] [--rounds N]

Two ways: all locks on one file, and spread over many.  The p99 of GETATTR (4 connections of 4 calls) may grow by 20 ms.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from dittofs.client.nlm import LockOwner, NlmClient, Range  # noqa: E402
from dittofs.protocols.nlm.types import nlm4_stats  # noqa: E402
from tests.end_to_end.control import Rest  # noqa: E402
from tests.end_to_end.server_process import MEMORY, ONE_SHARE, SHARE, ServerProcess  # noqa: E402

LOAD = ROOT / "bench" / "load"
ALLOWED_MS = 20.0
LIMITS = "[locks]\nmax_per_file = 1000000\nmax_per_client = 1000000\nmax_total = 1000000\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--locks", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    subprocess.run(["make", "-s", "-C", LOAD], check=True)
    is_met = True
    for files in (1, arguments.files):
        with tempfile.TemporaryDirectory(prefix="dittofs-bench-") as place:
            with ServerProcess(Path(place), MEMORY + ONE_SHARE + LIMITS) as server:
                take_locks(server, arguments.locks, files)
                is_met &= compare(server, f"{arguments.locks:,} locks on {files:,} files", arguments)
    print("met" if is_met else "NOT MET")
    return 0 if is_met else 1


def take_locks(server: ServerProcess, locks: int, files: int) -> None:
    with server.connect() as nfs, server.transport() as transport:
        handles = [nfs.create(nfs.root, b"file-%d" % number).obj for number in range(files)]
        nlm = NlmClient(transport, b"bench")
        for number in range(locks):
            handle = handles[number % files]
            assert handle is not None, "CREATE tells the handle"
            where = Range(handle=handle, offset=10 * (number // files), length=5)
            assert nlm.lock(LockOwner(1, b"owner"), where) is nlm4_stats.NLM4_GRANTED


def compare(server: ServerProcess, title: str, arguments: argparse.Namespace) -> bool:
    alone, beside = [], []
    for _ in range(arguments.rounds):
        alone.append(p99_of_getattr(server, arguments.seconds))
        over = threading.Event()
        listing = threading.Thread(target=list_all, args=(server, over))
        listing.start()
        beside.append(p99_of_getattr(server, arguments.seconds))
        over.set()
        listing.join()
    before, after = statistics.median(alone), statistics.median(beside)
    print(f"{title}: p99 of GETATTR {before:.2f} ms alone, {after:.2f} ms while they are listed")
    return after - before < ALLOWED_MS


def list_all(server: ServerProcess, over: threading.Event) -> None:
    rest, cursor, listed = Rest(server), "", 0
    while not over.is_set():
        page = rest.get(f"/locks?limit=1000&cursor={cursor}")
        listed += len(page["locks"])
        cursor = page["next"] or ""
    print(f"  {listed:,} locks were listed meanwhile")


def p99_of_getattr(server: ServerProcess, seconds: float) -> float:
    """In milliseconds."""
    command = [LOAD / "nfsload", "--port", str(server.port), "--mport", str(server.port), "--export", SHARE, "--json"]
    command += ["--op", "getattr", "--conns", "4", "--depth", "4", "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return float(json.loads(done.stdout.splitlines()[0])["p99_us"]) / 1000


if __name__ == "__main__":
    sys.exit(main())
