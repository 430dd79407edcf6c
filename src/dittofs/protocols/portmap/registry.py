"""Which programs are where (pure): the table behind a port mapper.

The server's own programs are put in by `announce` and stay: nobody can replace or remove them [NFS-3].  Others, set by
programs of this host, live beside them; their number is bounded.
"""

from collections.abc import Iterator
from typing import NamedTuple

from dittofs.protocols.portmap.addresses import NetworkId

OTHERS_KEPT = 1024
UNPROVEN = "unknown"
"""The owner of what others set: over a network nobody can prove who he is."""


class Service(NamedTuple):
    """A program and version, and the network it is reached by."""

    program: int
    version: int
    network: NetworkId


class Place(NamedTuple):
    """Where a service listens.  An address of None is whatever address the asking client used."""

    port: int
    address: str | None
    is_own: bool

    @property
    def owner(self) -> str:
        return "dittofs" if self.is_own else UNPROVEN


class Registry:
    """One entry for each program, version and network."""

    def __init__(self) -> None:
        self._places: dict[Service, Place] = {}
        self._others = 0

    def announce(self, program: int, version: int, network: NetworkId, port: int) -> None:
        """Put in a service of this server; what was there is replaced."""
        service = Service(program, version, network)
        self._drop(service)
        self._places[service] = Place(port, address=None, is_own=True)

    def set(self, service: Service, *, port: int, address: str | None) -> bool:
        """Put in somebody else's service.  An entry that is there is never replaced (RFC 1833 2.2.1)."""
        if service in self._places or self._others >= OTHERS_KEPT or not 0 < port < 65536:
            return False
        self._places[service] = Place(port, address, is_own=False)
        self._others += 1
        return True

    def unset(self, program: int, version: int, networks: tuple[NetworkId, ...]) -> bool:
        """Remove others' entries of a version on these networks only: each has its own."""
        found = [Service(program, version, network) for network in networks]
        found = [service for service in found if service in self._places and not self._places[service].is_own]
        for service in found:
            self._drop(service)
        return bool(found)

    def find(self, service: Service) -> Place | None:
        return self._places.get(service)

    def find_or_any_version(self, service: Service) -> Place | None:
        """That version, else the highest there is: the caller then learns from the program itself which versions it
        speaks (RFC 1833 2.2.1, RPCBPROC_GETADDR)."""
        place = self._places.get(service)
        if place is not None:
            return place
        others = [
            other for other in self._places if other.program == service.program and other.network == service.network
        ]
        return self._places[max(others)] if others else None

    def __iter__(self) -> Iterator[tuple[Service, Place]]:
        return iter(sorted(self._places.items()))

    def _drop(self, service: Service) -> None:
        place = self._places.pop(service, None)
        if place is not None and not place.is_own:
            self._others -= 1
