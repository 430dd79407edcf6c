"""Where a name stands in its directory: a number that is also the READDIR cookie.

The number depends on nothing but the share and the name, so that cookies stay valid while entries come and go, over
restarts, and on several servers, without a counter and without a second index.
"""

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b

SELF_COOKIE = 1
PARENT_COOKIE = 2
FIRST_PLACE = 3
END_OF_PLACES = 2**63
"""Linux hands cookies to programs as signed 64-bit offsets, so the top bit stays clear."""

PLACES_REMEMBERED = 16_384


def place_function(key: bytes) -> Callable[[bytes], int]:
    """The hash of one share.  It is keyed, so that nobody can prepare names that collide in every share."""
    keyed = blake2b(key=key, digest_size=8)

    @lru_cache(maxsize=PLACES_REMEMBERED)
    def place_of(name: bytes) -> int:
        digest = keyed.copy()
        digest.update(name)
        place = int.from_bytes(digest.digest(), "big") & (END_OF_PLACES - 1)
        return place if place >= FIRST_PLACE else place + FIRST_PLACE

    return place_of
