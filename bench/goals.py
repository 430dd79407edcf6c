"""What is aimed at, as ratios within one run, and how near a run came to it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Rows = dict[tuple[str, str, str], Row]
"""By workload, shape and server."""

MEMORY, DURABLE = "DittoFS memory", "DittoFS embedded durable"
COMPILED = " compiled"
MEM, TMPFS, DISK = "Ganesha MEM", "Ganesha VFS tmpfs", "Ganesha VFS disk"
LOOKING = ("GETATTR", "LOOKUP", "ACCESS")
CHANGING = ("CREATE", "MKDIR + RMDIR", "RENAME", "REMOVE")

Value = Callable[[Row], float | None]


@dataclass(frozen=True)
class Goal:
    """`ours` over `peer` in one workload, at least or at most so much.  A `peer` of None means the raw flush rate."""

    workload: str
    shape: str
    ours: str
    peer: str | None
    bound: float
    figure: str = "figure"
    at_most: bool = False

    def reached(self, rows: Rows, raw: float) -> float | None:
        """The ratio; None if it was not measured."""
        ours = rows.get((self.workload, self.shape, self.ours))
        if ours is None:
            return None
        if self.figure == "tenths":
            tenths = ours.get("tenths")
            return tenths[-1] / tenths[0] if tenths else None
        peer = {self.figure: raw} if self.peer is None else rows.get((self.workload, self.shape, self.peer))
        if peer is None or not ours.get(self.figure) or not peer.get(self.figure):
            return None
        return float(ours[self.figure] / peer[self.figure])

    def is_met(self, ratio: float) -> bool:
        return ratio <= self.bound if self.at_most else ratio >= self.bound


def goals() -> list[Goal]:
    found = []
    for shape in ("1x32", "8x16"):
        for server in (MEMORY, DURABLE):
            found += [Goal(name, shape, server, MEM, 4) for name in LOOKING]
            found += [Goal(name, shape, server + COMPILED, MEM, 8) for name in LOOKING]
        found += [
            Goal("NLM LOCK + UNLOCK", shape, MEMORY, MEM, 3),
            Goal("NLM LOCK + UNLOCK", shape, MEMORY + COMPILED, MEM, 6),
        ]
    for server in (MEMORY, MEMORY + COMPILED):
        found += [Goal(name, "8x16", server, MEM, 4) for name in CHANGING]
        found += [Goal("READDIRPLUS", "1x32", server, peer, 1.5) for peer in (MEM, TMPFS)]
        found += [Goal(name, "1x1", server, MEM, 1, "p50_us", at_most=True) for name in (*LOOKING, *CHANGING)]
        found += [
            Goal("10,000 locks on one file", "1x32", server, MEM, 0.7, "tenths"),
            Goal("hand-over, 8 waiters", "1x1", server, MEM, 1.5, "p50_us", at_most=True),
        ]
    for server in (DURABLE, DURABLE + COMPILED):
        found += [
            Goal("CREATE", "8x16", server, TMPFS, 2),
            Goal("CREATE", "1x1", server, None, 0.6),
            Goal("NLM LOCK + UNLOCK", "8x16", server, MEM, 2),
            Goal("READ 4 KiB random", "8x16", server, DISK, 4),
        ]
        for name in ("READ 1 MiB", "WRITE 1 MiB unstable + COMMIT"):
            found += [
                Goal(name, "1x1", server, DISK, 1.2),
                Goal(name, "8x16", server, DISK, 0.8, "srv_cpu_us_per_op", at_most=True),
            ]
    return found


NAMES = {"figure": "rate", "p50_us": "p50", "srv_cpu_us_per_op": "CPU per call", "tenths": "last tenth to first"}


def table(rows: list[Row], raw: float) -> list[str]:
    """The goals that this run can say something about."""
    by_key = {(row["workload"], row["shape"], row["server"]): row for row in rows}
    lines = ["| goal | load | server | what | to | asked | reached | |", "|---|---|---|---|---|--:|--:|---|"]
    met = total = 0
    for goal in goals():
        ratio = goal.reached(by_key, raw)
        if ratio is None:
            continue
        total += 1
        met += goal.is_met(ratio)
        cells = (
            goal.workload,
            goal.shape,
            goal.ours,
            NAMES[goal.figure],
            "raw flushes" if goal.peer is None else "itself" if goal.figure == "tenths" else goal.peer,
            f"{'≤' if goal.at_most else '≥'} {goal.bound:g}x",
            f"{ratio:.2f}x",
            "met" if goal.is_met(ratio) else "**not met**",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return [f"{met} of {total} goals are met.", "", *lines] if total else []
