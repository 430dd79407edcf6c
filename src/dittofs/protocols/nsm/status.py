"""This host's own status: its state number, and what programs of this host asked to have watched [NSM-1].

Kept in the server's data directory whatever the stores, through `keep`: what it returned from is durable.
"""

from collections.abc import Callable

import msgspec

from dittofs.clients.states import next_state

MONITORED_MAX = 1024
FORMAT = 1


class Asker(msgspec.Struct, frozen=True):
    """The program that wants to be told, as SM_MON names it."""

    name: bytes
    program: int
    version: int
    procedure: int


class Monitored(msgspec.Struct, frozen=True):
    """A host that a program of this one asked to have watched."""

    name: bytes
    address: str
    asker: Asker
    private: bytes
    """Given back to the program with the news."""


class StatusRecord(msgspec.Struct, frozen=True):
    """What is kept, as JSON: for people too."""

    state: int
    format: int = FORMAT
    monitored: tuple[Monitored, ...] = ()


class OwnStatus:
    """The state number and the list.  Odd while up; every start gives the next one."""

    def __init__(self, record: StatusRecord, keep: Callable[[StatusRecord], None]):
        self._record = record
        self._keep = keep

    @property
    def state(self) -> int:
        return self._record.state

    @property
    def monitored(self) -> tuple[Monitored, ...]:
        return self._record.monitored

    def advance(self) -> None:
        """The server has started, or behaves as if it had."""
        self._change(msgspec.structs.replace(self._record, state=next_state(self.state)))

    def monitor(self, wanted: Monitored) -> bool:
        """Watch a host for a program; false if the list is full.  The same wish again replaces the first."""
        others = [one for one in self.monitored if (one.name, one.asker) != (wanted.name, wanted.asker)]
        if len(others) >= MONITORED_MAX:
            return False
        self._set((*others, wanted))
        return True

    def unmonitor(self, name: bytes, asker: Asker) -> None:
        self._set(tuple(one for one in self.monitored if (one.name, one.asker) != (name, asker)))

    def unmonitor_all(self, asker: Asker) -> None:
        self._set(tuple(one for one in self.monitored if one.asker != asker))

    def watched_at(self, address: str) -> list[Monitored]:
        return [one for one in self.monitored if one.address == address]

    def _set(self, monitored: tuple[Monitored, ...]) -> None:
        if monitored != self.monitored:
            self._change(msgspec.structs.replace(self._record, monitored=monitored))

    def _change(self, record: StatusRecord) -> None:
        self._keep(record)
        self._record = record
