"""The network lock manager: version 4 as RFC 1813 appendix II declares it, versions 1 and 3 as XNFS chapter 10 does.

Versions 1 and 3 have 32-bit ranges and the first five statuses; otherwise the fields are the same, under the same names
here (XNFS writes `uppid` where version 4 has `svid`), so that one handler serves both.
"""

from enum import IntEnum
from typing import Annotated

from dittofs.xdr.types import Opaque, String, XdrUnion, int32, struct, uint32, uint64, union

PROGRAM = 100021

LM_MAXSTRLEN = 1024
LM_MAXNAMELEN = LM_MAXSTRLEN + 1
MAXNETOBJ_SZ = 1024

netobj = Annotated[bytes, Opaque(max=MAXNETOBJ_SZ)]
caller = Annotated[bytes, String(max=LM_MAXSTRLEN)]


class nlm_stats(IntEnum):
    """Versions 1 and 3."""

    LCK_GRANTED = 0
    LCK_DENIED = 1
    LCK_DENIED_NOLOCKS = 2
    LCK_BLOCKED = 3
    LCK_DENIED_GRACE_PERIOD = 4


class nlm4_stats(IntEnum):
    NLM4_GRANTED = 0
    NLM4_DENIED = 1
    NLM4_DENIED_NOLOCKS = 2
    NLM4_BLOCKED = 3
    NLM4_DENIED_GRACE_PERIOD = 4
    NLM4_DEADLCK = 5
    NLM4_ROFS = 6
    NLM4_STALE_FH = 7
    NLM4_FBIG = 8
    NLM4_FAILED = 9


class fsh_mode(IntEnum):
    """What a share reservation denies to others."""

    fsm_DN = 0
    fsm_DR = 1
    fsm_DW = 2
    fsm_DRW = 3


class fsh_access(IntEnum):
    """What a share reservation is for."""

    fsa_NONE = 0
    fsa_R = 1
    fsa_W = 2
    fsa_RW = 3


# Version 4.


@struct
class nlm4_holder:
    exclusive: bool
    svid: int32
    oh: netobj
    l_offset: uint64
    l_len: uint64


@struct
class nlm4_lock:
    caller_name: caller
    fh: netobj
    oh: netobj
    svid: int32
    l_offset: uint64
    l_len: uint64


@struct
class nlm4_res:
    cookie: netobj
    stat: nlm4_stats


@union(nlm4_stats)
class nlm4_testrply(XdrUnion):
    NLM4_DENIED: nlm4_holder
    default: None


@struct
class nlm4_testres:
    cookie: netobj
    test_stat: nlm4_testrply


@struct
class nlm4_lockargs:
    cookie: netobj
    block: bool
    exclusive: bool
    alock: nlm4_lock
    reclaim: bool
    state: int32


@struct
class nlm4_cancargs:
    cookie: netobj
    block: bool
    exclusive: bool
    alock: nlm4_lock


@struct
class nlm4_testargs:
    """Also what GRANTED carries."""

    cookie: netobj
    exclusive: bool
    alock: nlm4_lock


@struct
class nlm4_unlockargs:
    cookie: netobj
    alock: nlm4_lock


@struct
class nlm4_share:
    caller_name: caller
    fh: netobj
    oh: netobj
    mode: fsh_mode
    access: fsh_access


@struct
class nlm4_shareargs:
    cookie: netobj
    share: nlm4_share
    reclaim: bool


@struct
class nlm4_shareres:
    cookie: netobj
    stat: nlm4_stats
    sequence: int32


@struct
class nlm4_notify:
    name: Annotated[bytes, String(max=LM_MAXNAMELEN)]
    state: int32


# Versions 1 and 3.


@struct
class nlm_holder:
    exclusive: bool
    svid: int32
    oh: netobj
    l_offset: uint32
    l_len: uint32


@struct
class nlm_lock:
    caller_name: caller
    fh: netobj
    oh: netobj
    svid: int32
    l_offset: uint32
    l_len: uint32


@struct
class nlm_res:
    cookie: netobj
    stat: nlm_stats


@union(nlm_stats)
class nlm_testrply(XdrUnion):
    LCK_DENIED: nlm_holder
    default: None


@struct
class nlm_testres:
    cookie: netobj
    test_stat: nlm_testrply


@struct
class nlm_lockargs:
    cookie: netobj
    block: bool
    exclusive: bool
    alock: nlm_lock
    reclaim: bool
    state: int32


@struct
class nlm_cancargs:
    cookie: netobj
    block: bool
    exclusive: bool
    alock: nlm_lock


@struct
class nlm_testargs:
    cookie: netobj
    exclusive: bool
    alock: nlm_lock


@struct
class nlm_unlockargs:
    cookie: netobj
    alock: nlm_lock


@struct
class nlm_share:
    caller_name: caller
    fh: netobj
    oh: netobj
    mode: fsh_mode
    access: fsh_access


@struct
class nlm_shareargs:
    cookie: netobj
    share: nlm_share
    reclaim: bool


@struct
class nlm_shareres:
    cookie: netobj
    stat: nlm_stats
    sequence: int32


@struct
class nlm_notify:
    name: Annotated[bytes, String(max=LM_MAXNAMELEN)]
    state: int32
