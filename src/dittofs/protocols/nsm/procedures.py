"""The procedures of the status monitor (XNFS 11.2).

Anybody may ask for our state and tell of his own reboot; to have others watched is for programs of this host [NSM-1].
"""

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import structlog

from dittofs.clients.host_ids import host_name, plain_address
from dittofs.clients.monitoring import Heard, HostMonitor
from dittofs.model.errors import FileError
from dittofs.protocols.nsm.notifying import Notifier
from dittofs.protocols.nsm.status import Asker, Monitored, OwnStatus
from dittofs.protocols.nsm.types import (
    PROGRAM,
    VERSION,
    mon,
    mon_id,
    my_id,
    res,
    sm_name,
    sm_stat,
    sm_stat_res,
    stat_chge,
)
from dittofs.rpc.program import AuthenticationRefused, Call, NoAnswer, Program

log = structlog.get_logger()

NSM1 = Program("NSM", PROGRAM, VERSION)


class NsmServices:
    """What the procedures work on."""

    __slots__ = ("hosts", "notifier", "simulate_crash", "status")

    def __init__(self, hosts: HostMonitor, status: OwnStatus, notifier: Notifier, simulate_crash: Callable[[], None]):
        self.hosts = hosts
        self.status = status
        self.notifier = notifier
        self.simulate_crash = simulate_crash


def _silent(call: Call, args: Any, error: FileError) -> Any:
    """The client asks again, until what it said is stored [KEEP-1]."""
    raise NoAnswer


def _not_monitored(call: Call, args: mon, error: FileError) -> sm_stat_res:
    services: NsmServices = call.services
    log.error("what a program asked to have watched cannot be kept", reason=str(error))
    return sm_stat_res(res.STAT_FAIL, services.status.state)


@NSM1.procedure(0, None, None)
def null(call: Call, args: None) -> None:
    """XNFS 11.2.1."""


@NSM1.procedure(1, sm_name, sm_stat_res)
def stat(call: Call, args: sm_name) -> sm_stat_res:
    """XNFS 11.2.2: would we watch this host?  And our own state."""
    services: NsmServices = call.services
    is_placed = _address_of(services.hosts, args.mon_name) is not None
    return sm_stat_res(res.STAT_SUCC if is_placed else res.STAT_FAIL, services.status.state)


@NSM1.procedure(2, mon, sm_stat_res, failure=_not_monitored)
def mon_(call: Call, args: mon) -> sm_stat_res:
    """XNFS 11.2.3.  Names are not looked up: what is watched is an address, or a client that we know."""
    services = _for_this_host(call)
    address = _address_of(services.hosts, args.mon_id.mon_name)
    is_watched = address is not None and services.status.monitor(
        Monitored(args.mon_id.mon_name, address, _asker(args.mon_id.my_id), args.priv)
    )
    return sm_stat_res(res.STAT_SUCC if is_watched else res.STAT_FAIL, services.status.state)


@NSM1.procedure(3, mon_id, sm_stat, failure=_silent)
def unmon(call: Call, args: mon_id) -> sm_stat:
    """XNFS 11.2.4."""
    services = _for_this_host(call)
    services.status.unmonitor(args.mon_name, _asker(args.my_id))
    return sm_stat(services.status.state)


@NSM1.procedure(4, my_id, sm_stat, failure=_silent)
def unmon_all(call: Call, args: my_id) -> sm_stat:
    """XNFS 11.2.5."""
    services = _for_this_host(call)
    services.status.unmonitor_all(_asker(args))
    return sm_stat(services.status.state)


@NSM1.procedure(5, None, None, failure=_silent)
def simu_crash(call: Call, args: None) -> None:
    """XNFS 11.2.6: a program of this host lost its state.  Our own locks are not lost, so our clients hear nothing."""
    _for_this_host(call).simulate_crash()


@NSM1.procedure(6, stat_chge, None, failure=_silent)
async def notify(call: Call, args: stat_chge) -> None:
    """XNFS 11.2.7: the sender has rebooted [NSM-3].  Who it is tells its address, not the name that anybody can write.

    What is refused is answered as well: the sender would say it again for a quarter of an hour."""
    services: NsmServices = call.services
    address = plain_address(call.peer.address)
    heard, call.hold = await services.hosts.rebooted(name=args.mon_name, address=address, state=args.state)
    tell = log.info if heard is Heard.FREED else log.warning
    tell("a host says that it has rebooted", address=address, name=_shown(args.mon_name), result=heard.value)
    for watched in services.status.watched_at(address):
        services.notifier.tell_program(watched, args.state)


def _for_this_host(call: Call) -> NsmServices:
    if not call.peer.is_loopback:
        log.warning("only programs of this host may have hosts watched", client=call.peer.address)
        raise AuthenticationRefused
    services: NsmServices = call.services
    return services


def _asker(asker: my_id) -> Asker:
    return Asker(asker.my_name, asker.my_prog, asker.my_vers, asker.my_proc)


def _address_of(hosts: HostMonitor, name: bytes) -> str | None:
    text = name.decode("ascii", "replace")
    try:
        return plain_address(str(ip_address(text)))
    except ValueError:
        return hosts.address_of(name)


def _shown(name: bytes) -> str:
    """Names of the network are printed without what a terminal would obey, and not at any length."""
    return host_name(name[:255])
