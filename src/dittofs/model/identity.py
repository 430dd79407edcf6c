"""Who asks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """A user as the file rules see one, after squashing."""

    uid: int
    gid: int
    groups: frozenset[int] = frozenset()

    @property
    def is_root(self) -> bool:
        return self.uid == 0

    def is_member(self, gid: int) -> bool:
        return gid == self.gid or gid in self.groups
