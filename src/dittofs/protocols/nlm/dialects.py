"""The versions of NLM as values: which declarations each speaks, and how statuses and ranges look in it.

Versions 1 and 3 have 32-bit ranges and fewer statuses; otherwise they say the same, under the same field names.  So
every procedure is written once, for a `Dialect`.  SHARE, UNSHARE, NM_LOCK and FREE_ALL came with version 3.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dittofs.locks.outcomes import Released
from dittofs.locks.spans import Span
from dittofs.locks.values import Lock
from dittofs.protocols.nlm import types as t
from dittofs.protocols.nlm.errors import NARROWED, OUTCOMES
from dittofs.protocols.nlm.ranges import holder_of, holder_of_32, span_of, span_of_32
from dittofs.protocols.nlm.types import PROGRAM, nlm4_stats
from dittofs.rpc.calling import Exchange
from dittofs.rpc.program import Program


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Dialect:
    """One version."""

    program: Program
    lockargs: type
    cancargs: type
    testargs: type
    unlockargs: type
    shareargs: type
    notify: type
    res: Callable[[bytes, Any], Any]
    testres: Callable[[bytes, Any], Any]
    testrply: Callable[[Any, Any], Any]
    shareres: Callable[[bytes, Any, int], Any]
    statuses: Mapping[nlm4_stats, Any]
    outcomes: Mapping[type, Any]
    """What the lock table said, as a status of this version."""
    span_of: Callable[[int, int], Span]
    holder_of: Callable[[Lock], Any]

    @property
    def version(self) -> int:
        return self.program.version

    def outgoing(self, name: str, number: int, arguments: Any, result: Any) -> Exchange:
        """A call of ours to a client that speaks this version."""
        return Exchange(f"NLM{self.version}_{name}", PROGRAM, self.version, number, arguments, result)


NLM4 = Dialect(
    program=Program("NLM", PROGRAM, 4),
    lockargs=t.nlm4_lockargs,
    cancargs=t.nlm4_cancargs,
    testargs=t.nlm4_testargs,
    unlockargs=t.nlm4_unlockargs,
    shareargs=t.nlm4_shareargs,
    notify=t.nlm4_notify,
    res=t.nlm4_res,
    testres=t.nlm4_testres,
    testrply=t.nlm4_testrply,
    shareres=t.nlm4_shareres,
    statuses={status: status for status in nlm4_stats},
    outcomes={**OUTCOMES, Released: nlm4_stats.NLM4_GRANTED},
    span_of=span_of,
    holder_of=holder_of,
)


def _narrow(version: int) -> Dialect:
    return Dialect(
        program=Program("NLM", PROGRAM, version),
        lockargs=t.nlm_lockargs,
        cancargs=t.nlm_cancargs,
        testargs=t.nlm_testargs,
        unlockargs=t.nlm_unlockargs,
        shareargs=t.nlm_shareargs,
        notify=t.nlm_notify,
        res=t.nlm_res,
        testres=t.nlm_testres,
        testrply=t.nlm_testrply,
        shareres=t.nlm_shareres,
        statuses=NARROWED,
        outcomes={outcome: NARROWED[status] for outcome, status in NLM4.outcomes.items()},
        span_of=span_of_32,
        holder_of=holder_of_32,
    )


NLM3 = _narrow(3)
NLM1 = _narrow(1)
DIALECTS = (NLM4, NLM3, NLM1)
