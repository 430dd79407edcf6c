"""The network status monitor, version 1, as XNFS chapter 11 declares it."""

from enum import IntEnum
from typing import Annotated

from dittofs.xdr.types import FixedOpaque, String, int32, struct

PROGRAM = 100024
VERSION = 1

# 11.1.1 RPC information
SM_MAXSTRLEN = 1024
SM_PRIVLEN = 16

name = Annotated[bytes, String(max=SM_MAXSTRLEN)]
priv = Annotated[bytes, FixedOpaque(SM_PRIVLEN)]


# 11.2.2 SM_STAT
@struct
class sm_name:
    mon_name: name


class res(IntEnum):
    STAT_SUCC = 0
    STAT_FAIL = 1


@struct
class sm_stat_res:
    res_stat: res
    state: int32


# 11.2.3 SM_MON
@struct
class my_id:
    my_name: name
    my_prog: int32
    my_vers: int32
    my_proc: int32


@struct
class mon_id:
    mon_name: name
    my_id: my_id


@struct
class mon:
    mon_id: mon_id
    priv: priv


# 11.2.4 SM_UNMON
@struct
class sm_stat:
    state: int32


# 11.2.7 SM_NOTIFY
@struct
class stat_chge:
    mon_name: name
    state: int32


# 11.3 What a program that asked for monitoring is told
@struct
class status:
    mon_name: name
    state: int32
    priv: priv
