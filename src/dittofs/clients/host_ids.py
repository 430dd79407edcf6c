"""How a host that locks through NLM is told from every other one: by its name and its address together [NLM-7].

The one place that makes such an id, for whoever takes locks, hears of a reboot or shows a client to people.
"""

from functools import lru_cache
from urllib.parse import quote

from dittofs.model.ids import ClientId

_MAPPED = "::ffff:"
_PLAIN = "-._~:/@+, "
"""Bytes that stay as they are: whatever cannot be mistaken for an escape."""


def plain_address(address: str) -> str:
    """`::ffff:a.b.c.d` is `a.b.c.d`."""
    return address[len(_MAPPED) :] if address.startswith(_MAPPED) and "." in address else address


@lru_cache(maxsize=16_384)
def host_name(caller_name: bytes) -> str:
    """A name from the network as printable text; two names that differ in a byte differ here too."""
    return quote(caller_name, safe=_PLAIN)


@lru_cache(maxsize=16_384)
def host_id(caller_name: bytes, address: str) -> ClientId:
    """The address comes first and holds no space, so that no name can reach into it, whatever it holds [KEEP-2]."""
    return ClientId(f"{plain_address(address)} {host_name(caller_name)}")


class HostsAt:
    """The ids of all hosts at one address, whatever they call themselves."""

    __slots__ = ("_beginning",)

    def __init__(self, address: str):
        self._beginning = f"{plain_address(address)} "

    def __contains__(self, client: object) -> bool:
        return isinstance(client, str) and client.startswith(self._beginning)
