"""The status monitor of a simulated host: writes down who says that he has rebooted."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from dittofs.protocols.nsm.types import PROGRAM, VERSION, stat_chge
from dittofs.rpc.program import Call, Peer, Program
from tests.hosts.host import Host
from tests.hosts.network import Recorded


@dataclass(frozen=True, slots=True)
class Notice:
    """One SM_NOTIFY as it arrived."""

    at: float
    name: bytes
    state: int
    peer: Peer


class Statd:
    """Serves on the host from its making on; `on_notice` is called in the network's thread."""

    def __init__(
        self,
        host: Host,
        *,
        transports: tuple[str, ...] = ("tcp", "udp"),
        on_notice: Callable[[Notice], None] = lambda notice: None,
    ):
        self.notices: Recorded[Notice] = Recorded()
        self._on_notice = on_notice
        host.serve([_program()], self, transports=transports)

    def heard(self, notice: Notice) -> None:
        self.notices.append(notice)
        self._on_notice(notice)


def _program() -> Program:
    program = Program("NSM", PROGRAM, VERSION)

    @program.procedure(6, stat_chge, None)
    def notify(call: Call, args: stat_chge) -> None:
        statd: Statd = call.services
        statd.heard(Notice(time.monotonic(), args.mon_name, args.state, call.peer))

    return program
