"""What is measured: names of the load generator's workloads, with their options, and the shapes of the load."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """Connections, and calls outstanding on each."""

    connections: int
    depth: int

    def __str__(self) -> str:
        return f"{self.connections}x{self.depth}"


ONE, DEEP, WIDE = Shape(1, 1), Shape(1, 32), Shape(8, 16)
SHAPES = (ONE, DEEP, WIDE)


@dataclass(frozen=True)
class Workload:
    """One run of the generator.  `ops` bounds it where time does not."""

    title: str
    op: str
    options: tuple[str, ...] = ()
    shapes: tuple[Shape, ...] = SHAPES
    needs_content: bool = False
    needs_locks: bool = False
    is_canned: bool = True
    """rpcnull has answers for it."""
    ops: int = 0
    figure: str = "ops_per_s"


METADATA = (
    Workload("NULL", "null"),
    Workload("GETATTR", "getattr"),
    Workload("LOOKUP", "lookup"),
    Workload("ACCESS", "access"),
    Workload("CREATE", "create", is_canned=False),
    Workload("MKDIR + RMDIR", "mkdir", is_canned=False),
    Workload("RENAME", "rename", is_canned=False),
    Workload("REMOVE", "remove", ("--files", "5000"), is_canned=False),
    Workload("READDIRPLUS", "readdirplus", ("--entries", "10000"), figure="entries_per_s"),
)
CONTENT = (
    Workload(
        "WRITE 1 MiB unstable + COMMIT",
        "seqwrite",
        ("--size", "1M", "--filesize", "64M"),
        shapes=(ONE, WIDE),
        needs_content=True,
        is_canned=False,
        figure="mb_per_s",
    ),
    Workload(
        "READ 1 MiB",
        "seqread",
        ("--size", "1M", "--filesize", "64M"),
        shapes=(ONE, WIDE),
        needs_content=True,
        figure="mb_per_s",
    ),
    Workload("READ 4 KiB random", "randread4k", ("--filesize", "64M"), needs_content=True, shapes=(ONE, WIDE)),
)
LOCKS = (
    Workload("NLM LOCK + UNLOCK", "lock", needs_locks=True),
    Workload("NLM TEST", "locktest", needs_locks=True, is_canned=False),
    Workload(
        "10,000 locks on one file", "lockheld", ("--locks", "10000"), shapes=(DEEP,), needs_locks=True, is_canned=False
    ),
    Workload("hand-over, 8 waiters", "contend", ("--waiters", "8"), shapes=(ONE,), needs_locks=True, is_canned=False),
)
ALL = METADATA + CONTENT + LOCKS
QUICK = tuple(
    workload
    for workload in ALL
    if workload.op in {"getattr", "lookup", "create", "readdirplus", "seqread", "seqwrite", "lock", "contend"}
)
