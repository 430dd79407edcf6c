"""How much one call moves, by transport: what FSINFO promises and what every procedure keeps to [NFS-6]."""

from typing import NamedTuple

READ_MAX = WRITE_MAX = 1_048_576
DIRECTORY_MAX = 65_536
"""One answer's worth of entries; a client asks again for the next, and nobody waits long meanwhile."""

DATAGRAM_DATA_MAX = 32_768
"""A datagram of IPv4 holds 65,507 bytes, with all headers."""


class Limits(NamedTuple):
    """The largest READ and WRITE, and the largest list of entries, in bytes."""

    read: int
    write: int
    directory: int


STREAM = Limits(READ_MAX, WRITE_MAX, DIRECTORY_MAX)
DATAGRAM = Limits(DATAGRAM_DATA_MAX, DATAGRAM_DATA_MAX, DATAGRAM_DATA_MAX)


def limits_of(transport: str) -> Limits:
    return DATAGRAM if transport == "udp" else STREAM
