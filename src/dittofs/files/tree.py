"""What the rules must know about the share they work on, and nothing more."""

from collections.abc import Callable
from typing import NamedTuple

from dittofs.files.cookies import place_function
from dittofs.model.ids import FileId, ShareId


class Tree(NamedTuple):
    """One share's tree.  `place_of` says where in a directory a name has its home."""

    share: ShareId
    root: FileId
    place_of: Callable[[bytes], int]


def tree_of(share: ShareId, root: FileId) -> Tree:
    """The tree of a share, with names placed by the hash that belongs to the share."""
    return Tree(share, root, place_function(share))
