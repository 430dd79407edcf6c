"""Where a name stands in its directory: a number that is also the READDIR cookie.

The number depends on nothing but the share and the name, so that cookies stay valid while entries come and go, over
restarts, and on several servers, without a counter and without a second index.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

SELF_COOKIE: Final = 1
PARENT_COOKIE: Final = 2
FIRST_PLACE: Final = 3
END_OF_PLACES: Final = 2**63
"""Linux hands cookies to programs as signed 64-bit offsets, so the top bit stays clear."""

PLACES_REMEMBERED: Final = 16_384

_PLACE_BITS: Final = END_OF_PLACES - 1


class Places:
    """The hash of one share.  It is keyed, so that nobody can prepare names that collide in every share."""

    __slots__ = ("_keyed", "_known")

    def __init__(self, key: bytes):
        self._keyed = blake2b(key=key, digest_size=8).copy  # which has the key behind it already
        self._known: dict[bytes, int] = {}

    def place_of(self, name: bytes) -> int:
        known = self._known
        place = known.get(name)
        if place is not None:
            return place
        digest = self._keyed()
        digest.update(name)
        place = int.from_bytes(digest.digest(), "big") & _PLACE_BITS
        if place < FIRST_PLACE:
            place += FIRST_PLACE
        if len(known) >= PLACES_REMEMBERED:
            known.clear()  # names that are in use come back, at one hash each
        known[name] = place
        return place


def place_function(key: bytes) -> Callable[[bytes], int]:
    return Places(key).place_of
