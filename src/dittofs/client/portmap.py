"""Asking a port mapper where programs are: version 2, and rpcbind version 4."""

from dittofs.client.transports import Transport
from dittofs.protocols.portmap import types as t
from dittofs.rpc.calling import Exchange
from dittofs.xdr.types import uint32

PORT = 111
PROGRAM = 100000
PROTOCOLS = {"tcp": t.IPPROTO_TCP, "udp": t.IPPROTO_UDP}

NULL = Exchange("PMAPPROC_NULL", PROGRAM, 2, 0)
SET = Exchange("PMAPPROC_SET", PROGRAM, 2, 1, t.mapping, bool)
UNSET = Exchange("PMAPPROC_UNSET", PROGRAM, 2, 2, t.mapping, bool)
GETPORT = Exchange("PMAPPROC_GETPORT", PROGRAM, 2, 3, t.mapping, uint32)
DUMP = Exchange("PMAPPROC_DUMP", PROGRAM, 2, 4, None, t.pmaplist)

RPCB_NULL = Exchange("RPCBPROC_NULL", PROGRAM, 4, 0)
RPCB_SET = Exchange("RPCBPROC_SET", PROGRAM, 4, 1, t.rpcb, bool)
RPCB_UNSET = Exchange("RPCBPROC_UNSET", PROGRAM, 4, 2, t.rpcb, bool)
RPCB_GETADDR = Exchange("RPCBPROC_GETADDR", PROGRAM, 4, 3, t.rpcb, t.text)
RPCB_DUMP = Exchange("RPCBPROC_DUMP", PROGRAM, 4, 4, None, t.rpcblist)
RPCB_GETTIME = Exchange("RPCBPROC_GETTIME", PROGRAM, 4, 6, None, uint32)
RPCB_UADDR2TADDR = Exchange("RPCBPROC_UADDR2TADDR", PROGRAM, 4, 7, t.text, t.netbuf)
RPCB_TADDR2UADDR = Exchange("RPCBPROC_TADDR2UADDR", PROGRAM, 4, 8, t.netbuf, t.text)
RPCB_GETVERSADDR = Exchange("RPCBPROC_GETVERSADDR", PROGRAM, 4, 9, t.rpcb, t.text)
RPCB_GETADDRLIST = Exchange("RPCBPROC_GETADDRLIST", PROGRAM, 4, 11, t.rpcb, t.rpcb_entry_list)


def port_of(transport: Transport, program: int, version: int, protocol: str = "tcp") -> int:
    """The port of a program, 0 if it is not there."""
    port: int = transport.call(GETPORT, t.mapping(program, version, PROTOCOLS[protocol], 0))
    return port


def mappings(transport: Transport) -> list[t.mapping]:
    """Everything there is, as `rpcinfo -p` shows it."""
    found: list[t.mapping] = transport.call(DUMP)
    return found
