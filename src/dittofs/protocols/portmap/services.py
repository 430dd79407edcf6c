"""What the procedures of the port mapper work on; the server makes one and binds it to all three versions."""

from collections.abc import Callable

from dittofs.protocols.portmap.registry import Registry


class PortmapServices:
    """The table, and a clock in seconds since 1970 for GETTIME."""

    __slots__ = ("clock", "registry")

    def __init__(self, registry: Registry, clock: Callable[[], float]):
        self.registry = registry
        self.clock = clock
