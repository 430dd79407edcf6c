"""Whom a share takes a client's user for (pure) [NFS-4]."""

from enum import Enum

from dittofs.model.identity import Identity

ROOT = 0


class Squash(Enum):
    """Whose ids are replaced by the anonymous ones."""

    NONE = "none"
    ROOT = "root"
    ALL = "all"


def squashed(squash: Squash, identity: Identity | None, anonymous: Identity) -> Identity:
    """The user as the file rules see one; None is a client that named nobody.

    With ROOT each id is judged by itself, as Linux does: a user in group 0 keeps his uid and loses that group.
    """
    if identity is None or squash is Squash.ALL:
        return anonymous
    if squash is Squash.NONE or not (identity.uid == ROOT or identity.is_member(ROOT)):
        return identity
    return Identity(
        uid=anonymous.uid if identity.uid == ROOT else identity.uid,
        gid=anonymous.gid if identity.gid == ROOT else identity.gid,
        groups=frozenset(anonymous.gid if group == ROOT else group for group in identity.groups),
    )
