"""The port mapper (version 2) and rpcbind (versions 3 and 4) as RFC 1833 declares them."""

from typing import Annotated

from dittofs.xdr.types import Chain, Opaque, String, struct, uint32

LIST_BOUND = 100_000
TEXT_BOUND = 1024
"""Network ids, universal addresses and owners have no bound in the RFC."""

# 3. Version 2
IPPROTO_TCP = 6
IPPROTO_UDP = 17


@struct
class mapping:
    prog: uint32
    vers: uint32
    prot: uint32
    port: uint32


pmaplist = Annotated[list[mapping], Chain(max=LIST_BOUND)]

# 2.1 Versions 3 and 4
text = Annotated[bytes, String(max=TEXT_BOUND)]


@struct
class rpcb:
    r_prog: uint32
    r_vers: uint32
    r_netid: text
    r_addr: text
    r_owner: text


rpcblist = Annotated[list[rpcb], Chain(max=LIST_BOUND)]


@struct
class rpcb_entry:
    r_maddr: text
    r_nc_netid: text
    r_nc_semantics: uint32
    r_nc_protofmly: text
    r_nc_proto: text


rpcb_entry_list = Annotated[list[rpcb_entry], Chain(max=LIST_BOUND)]

NC_TPI_CLTS = 1
NC_TPI_COTS_ORD = 3


@struct
class netbuf:
    maxlen: uint32
    buf: Annotated[bytes, Opaque(max=TEXT_BOUND)]
