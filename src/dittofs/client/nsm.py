"""The status monitor's procedures, one method each: for tests and for people."""

from dittofs.client.transports import Transport
from dittofs.protocols.nsm import types as t
from dittofs.rpc.calling import Exchange

NULL = Exchange("SM_NULL", t.PROGRAM, t.VERSION, 0)
STAT = Exchange("SM_STAT", t.PROGRAM, t.VERSION, 1, t.sm_name, t.sm_stat_res)
MON = Exchange("SM_MON", t.PROGRAM, t.VERSION, 2, t.mon, t.sm_stat_res)
UNMON = Exchange("SM_UNMON", t.PROGRAM, t.VERSION, 3, t.mon_id, t.sm_stat)
UNMON_ALL = Exchange("SM_UNMON_ALL", t.PROGRAM, t.VERSION, 4, t.my_id, t.sm_stat)
SIMU_CRASH = Exchange("SM_SIMU_CRASH", t.PROGRAM, t.VERSION, 5)
NOTIFY = Exchange("SM_NOTIFY", t.PROGRAM, t.VERSION, 6, t.stat_chge)


class NsmClient:
    """The procedures over one transport."""

    def __init__(self, transport: Transport):
        self.transport = transport

    def null(self) -> None:
        self.transport.call(NULL)

    def stat(self, name: bytes = b"127.0.0.1") -> t.sm_stat_res:
        """Would the host watch that one?  And its own state."""
        result: t.sm_stat_res = self.transport.call(STAT, t.sm_name(name))
        return result

    def mon(self, name: bytes, asker: t.my_id, priv: bytes = bytes(t.SM_PRIVLEN)) -> t.sm_stat_res:
        result: t.sm_stat_res = self.transport.call(MON, t.mon(t.mon_id(name, asker), priv))
        return result

    def unmon(self, name: bytes, asker: t.my_id) -> int:
        result: t.sm_stat = self.transport.call(UNMON, t.mon_id(name, asker))
        return result.state

    def unmon_all(self, asker: t.my_id) -> int:
        result: t.sm_stat = self.transport.call(UNMON_ALL, asker)
        return result.state

    def simu_crash(self) -> None:
        self.transport.call(SIMU_CRASH)

    def notify(self, name: bytes, state: int) -> None:
        """Tell that the host of this transport has rebooted."""
        self.transport.call(NOTIFY, t.stat_chge(name, state))
