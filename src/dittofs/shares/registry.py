"""All shares of a server, by name and by the id that handles carry; and what makes a share in a store."""

import secrets
from collections.abc import Iterator
from typing import NamedTuple

from dittofs.config import ShareSettings
from dittofs.files.handles import share_id_of
from dittofs.files.inodes import make_root
from dittofs.files.records import SHARES, ShareRecord
from dittofs.model.errors import StaleHandle
from dittofs.model.ids import FileId, ShareId
from dittofs.shares.share import Share
from dittofs.stores.tables import View

ID_BYTES = 8
KEY_BYTES = 32
HANDLES_KEPT = 65_536


class Resolved(NamedTuple):
    """What a handle means: a file of a share.  Whether the file still exists is not known here."""

    share: Share
    id: FileId


class ShareRegistry:
    """The shares that are served.  Names and ids are unique."""

    def __init__(self) -> None:
        self._by_name: dict[str, Share] = {}
        self._by_id: dict[ShareId, Share] = {}
        self._resolved: dict[bytes, Resolved] = {}
        self.changes = 0
        """Grows whenever what a handle means, or who may use it, may be another than before."""

    def add(self, share: Share) -> None:
        assert share.name not in self._by_name, f"{share.name} is served already"
        assert share.volume.id not in self._by_id, f"the id of {share.name} is taken"
        self._by_name[share.name] = share
        self._by_id[share.volume.id] = share

    def find(self, name: str) -> Share | None:
        return self._by_name.get(name)

    def replace(self, share: Share) -> None:
        """The same tree under other rules."""
        assert self._by_name[share.name].volume is share.volume, f"{share.name} keeps its data"
        self._by_name[share.name] = self._by_id[share.volume.id] = share
        self._resolved.clear()
        self.changes += 1

    def remove(self, name: str) -> Share:
        """Serve it no longer: its handles are stale from now on."""
        share = self._by_name.pop(name)
        del self._by_id[share.volume.id]
        self._resolved.clear()
        self.changes += 1
        return share

    def __iter__(self) -> Iterator[Share]:
        """In the order of their names."""
        return (share for _, share in sorted(self._by_name.items()))

    def resolve(self, handle: bytes) -> Resolved:
        """The share and file of a handle.  Raises BadHandle, StaleHandle [NFS-7]."""
        resolved = self._resolved.get(handle)
        if resolved is not None:
            return resolved
        share = self._by_id.get(share_id_of(handle))
        if share is None:
            raise StaleHandle("the handle is of a share that is not served here")
        resolved = Resolved(share, share.volume.codec.decode(handle))
        if len(self._resolved) >= HANDLES_KEPT:
            del self._resolved[next(iter(self._resolved))]
        self._resolved[handle] = resolved
        return resolved

    def find_path(self, path: str) -> tuple[Share, list[str]] | None:
        """The share that a path lies in, and the names below its root; with nested names the longest one counts."""
        names = [name for name in path.split("/") if name]
        for count in range(len(names), -1, -1):
            share = self._by_name.get("/" + "/".join(names[:count]))
            if share is not None:
                return share, names[count:]
        return None


class NewShare(NamedTuple):
    """What a share is given if it does not exist yet: random, so it is made outside of the transaction."""

    id: bytes
    handle_key: bytes
    fsid: int


def new_share() -> NewShare:
    identifier = secrets.token_bytes(ID_BYTES)
    return NewShare(identifier, secrets.token_bytes(KEY_BYTES), int.from_bytes(identifier, "big"))


def open_share(view: View, settings: ShareSettings, new: NewShare) -> ShareRecord:
    """The record of a share; the first time it and an empty root directory are made, in one transaction."""
    name = settings.name.encode("utf-8", "surrogateescape")
    record = view.get(SHARES, name)
    if record is not None:
        return record
    root = make_root(view, uid=settings.root_uid, gid=settings.root_gid, mode=settings.root_mode)
    record = ShareRecord(id=new.id, root=root, handle_key=new.handle_key, fsid=new.fsid)
    view.put(SHARES, name, record)
    return record
