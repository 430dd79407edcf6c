"""Where a name stands in its directory: a number that is also the READDIR cookie.

The number depends on nothing but the share and the name, so that cookies stay valid while entries come and go, over
restarts, and on several servers, without a counter and without a second index.
"""

from collections.abc import Callable
from hashlib import blake2b

SELF_COOKIE = 1
PARENT_COOKIE = 2
FIRST_PLACE = 3
END_OF_PLACES = 2**63
"""Linux hands cookies to programs as signed 64-bit offsets, so the top bit stays clear."""

PLACES_REMEMBERED = 16_384


class Places:
    """The hash of one share.  It is keyed, so that nobody can prepare names that collide in every share."""

    __slots__ = ("_keyed", "_known")

    def __init__(self, key: bytes):
        self._keyed = blake2b(key=key, digest_size=8)
        self._known: dict[bytes, int] = {}

    def place_of(self, name: bytes) -> int:
        known = self._known
        place = known.get(name)
        if place is not None:
            return place
        digest = self._keyed.copy()
        digest.update(name)
        place = int.from_bytes(digest.digest(), "big") & (END_OF_PLACES - 1)
        if place < FIRST_PLACE:
            place += FIRST_PLACE
        if len(known) >= PLACES_REMEMBERED:
            known.clear()  # names that are in use come back, at one hash each
        known[name] = place
        return place


def place_function(key: bytes) -> Callable[[bytes], int]:
    return Places(key).place_of
