"""The stores' words for errors of the system."""

import errno

from dittofs.stores.api import StoreError, StoreFull

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def store_error(error: OSError, what: str) -> StoreError:
    """`what` says what could not be done, with its path."""
    kind = StoreFull if error.errno in _FULL else StoreError
    return kind(f"{what}: {error.strerror}")
