"""From what can go wrong, and from what the lock table says, to the status of RFC 1813 appendix II [NLM-3]."""

from dittofs.locks import outcomes
from dittofs.model import errors
from dittofs.protocols.nlm.types import nlm4_stats, nlm_stats

STATUS: dict[type[errors.FileError], nlm4_stats] = {
    errors.StaleHandle: nlm4_stats.NLM4_STALE_FH,
    errors.BadHandle: nlm4_stats.NLM4_STALE_FH,
    errors.NotFound: nlm4_stats.NLM4_STALE_FH,
    errors.ReadOnlyShare: nlm4_stats.NLM4_ROFS,
    errors.FileTooBig: nlm4_stats.NLM4_FBIG,
    # Whatever keeps a lock from being recorded [KEEP-1].
    errors.StoreFailure: nlm4_stats.NLM4_DENIED_NOLOCKS,
    errors.NoSpace: nlm4_stats.NLM4_DENIED_NOLOCKS,
    errors.QuotaExceeded: nlm4_stats.NLM4_DENIED_NOLOCKS,
    errors.TryLater: nlm4_stats.NLM4_DENIED_NOLOCKS,
    errors.FileError: nlm4_stats.NLM4_FAILED,
}

NOT_STORED = (errors.StoreFailure, errors.NoSpace, errors.QuotaExceeded, errors.TryLater)
"""Errors of the store, not of the request: trying again may help."""

OUTCOMES: dict[type[outcomes.Outcome], nlm4_stats] = {
    outcomes.Granted: nlm4_stats.NLM4_GRANTED,
    outcomes.Blocked: nlm4_stats.NLM4_BLOCKED,
    outcomes.Denied: nlm4_stats.NLM4_DENIED,
    outcomes.Deadlock: nlm4_stats.NLM4_DEADLCK,
    outcomes.InGrace: nlm4_stats.NLM4_DENIED_GRACE_PERIOD,
    # Somebody else may hold it by now; GRACE_PERIOD would let a client try for ever.
    outcomes.ReclaimRefused: nlm4_stats.NLM4_DENIED,
    outcomes.LimitReached: nlm4_stats.NLM4_DENIED_NOLOCKS,
    outcomes.NotHeld: nlm4_stats.NLM4_FAILED,
    outcomes.TimedOut: nlm4_stats.NLM4_DENIED_NOLOCKS,
}

NARROWED: dict[nlm4_stats, nlm_stats] = {
    nlm4_stats.NLM4_GRANTED: nlm_stats.LCK_GRANTED,
    nlm4_stats.NLM4_DENIED: nlm_stats.LCK_DENIED,
    nlm4_stats.NLM4_DENIED_NOLOCKS: nlm_stats.LCK_DENIED_NOLOCKS,
    nlm4_stats.NLM4_BLOCKED: nlm_stats.LCK_BLOCKED,
    nlm4_stats.NLM4_DENIED_GRACE_PERIOD: nlm_stats.LCK_DENIED_GRACE_PERIOD,
    nlm4_stats.NLM4_DEADLCK: nlm_stats.LCK_DENIED,
    nlm4_stats.NLM4_ROFS: nlm_stats.LCK_DENIED_NOLOCKS,
    nlm4_stats.NLM4_STALE_FH: nlm_stats.LCK_DENIED_NOLOCKS,
    nlm4_stats.NLM4_FBIG: nlm_stats.LCK_DENIED_NOLOCKS,
    nlm4_stats.NLM4_FAILED: nlm_stats.LCK_DENIED_NOLOCKS,
}
"""What versions 1 and 3 say instead."""


def status_of(error: errors.FileError) -> nlm4_stats:
    """The nearest class that the table knows decides."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
