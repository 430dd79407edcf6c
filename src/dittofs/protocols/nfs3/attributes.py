"""A file's attributes as NFS sends them.

Nearly every answer carries a `fattr3`, and most files do not change between two of them, so it is kept encoded.  What
is kept is valid exactly as long as the file still *is* the two records it was made from: records are immutable, a
changed file has other ones, and nothing has to be thrown away when a file changes.
"""

from typing import Final

from dittofs.files.records import DirectoryState, Inode
from dittofs.files.values import File, ServerTime, SetAttributes
from dittofs.protocols.nfs3.packing import (
    pack_before_links,
    pack_behind_links,
    pack_directory_wcc_data,
    pack_fattr3,
    pack_times,
    pack_whole_wcc_before,
)
from dittofs.protocols.nfs3.types import nfstime3, sattr3, set_atime, set_mtime, time_how

FILES_KEPT: Final = 32_768
WISHES_KEPT: Final = 4096
NANOSECONDS: Final = 1_000_000_000
LATEST: Final = 2**32 * NANOSECONDS - 1


class _Directory:
    """What was encoded of a directory: of its inode, and of its state as it was told last."""

    __slots__ = ("before_links", "behind_links", "inode", "state", "times")

    def __init__(self, id_: int, inode: Inode, fsid: int):
        seconds, rest = time_of(inode.atime)
        self.inode = inode
        self.before_links: bytes = pack_before_links(inode.type, inode.mode)
        self.behind_links: bytes = pack_behind_links(
            inode.uid,
            inode.gid,
            inode.size,
            inode.used,
            inode.device_major,
            inode.device_minor,
            fsid,
            id_,
            seconds,
            rest,
        )
        self.state: DirectoryState | None = None
        self.times = b""

    def times_of(self, state: DirectoryState) -> bytes:
        if state is not self.state:
            mtime, ctime = state.mtime, state.ctime
            changed, changed_rest = time_of(ctime)
            modified, modified_rest = (changed, changed_rest) if mtime == ctime else time_of(mtime)
            self.state = state
            self.times = pack_times(modified, modified_rest, changed, changed_rest)
        return self.times


class AttributeCache:
    """The encoded attributes of one share's files.  Bounded: when full it starts afresh, which costs each file that is
    in use one encoding, where keeping the order of use would cost at each hit."""

    __slots__ = ("_capacity", "_directories", "_fsid", "_kept")

    def __init__(self, fsid: int, *, capacity: int = FILES_KEPT):
        self._fsid = fsid
        self._capacity = capacity
        self._kept: dict[int, tuple[Inode, DirectoryState | None, bytes]] = {}
        self._directories: dict[int, _Directory] = {}

    def encoded(self, file: File) -> bytes:
        """The `fattr3` of a file, encoded."""
        id_, inode, state = file.id, file.inode, file.state
        kept = self._kept.get(id_)
        if kept is not None and kept[0] is inode and kept[1] is state:
            return kept[2]
        made = fattr3_of(file, self._fsid)
        if len(self._kept) >= self._capacity:
            self._kept.clear()
        self._kept[id_] = (inode, state, made)
        return made

    def wcc(self, before: File, after: File) -> bytes:
        """What a client's cache needs to know whether only this call changed the file (RFC 1813 2.6), encoded."""
        state = after.state
        if state is not None:
            # Every change of its entries is told, one after the other, and leaves most of a directory as it was.
            state_before, inode = before.state, after.inode
            if state_before is not None and before.inode is inode:
                known = self._directories.get(after.id)
                if known is None or known.inode is not inode:
                    known = self._keep_directory(after.id, inode)
                times_before = known.times if known.state is state_before else known.times_of(state_before)
                wcc: bytes = pack_directory_wcc_data(
                    1,
                    inode.size,
                    times_before,
                    1,
                    known.before_links,
                    state.links,
                    known.behind_links,
                    known.times_of(state),
                )
                return wcc
        begin: bytes = pack_whole_wcc_before(1, *_wcc_attr_words(before), 1)
        return begin + fattr3_of(after, self._fsid)

    def _keep_directory(self, id_: int, inode: Inode) -> _Directory:
        if len(self._directories) >= self._capacity:
            self._directories.clear()
        made = self._directories[id_] = _Directory(id_, inode, self._fsid)
        return made


def fattr3_of(file: File, fsid: int) -> bytes:
    """RFC 1813 2.6, encoded."""
    inode, state = file.inode, file.state
    if state is None:
        links, mtime, ctime = inode.links, inode.mtime, inode.ctime
    else:
        links, mtime, ctime = state.links, state.mtime, state.ctime
    atime = inode.atime
    changed, changed_rest = time_of(ctime)
    # Most often they are the same moment, of a new file all three.
    modified, modified_rest = (changed, changed_rest) if mtime == ctime else time_of(mtime)
    accessed, accessed_rest = (modified, modified_rest) if atime == mtime else time_of(atime)
    encoded: bytes = pack_fattr3(
        inode.type,
        inode.mode,
        links,
        inode.uid,
        inode.gid,
        inode.size,
        inode.used,
        inode.device_major,
        inode.device_minor,
        fsid,
        file.id,
        accessed,
        accessed_rest,
        modified,
        modified_rest,
        changed,
        changed_rest,
    )
    return encoded


def _wcc_attr_words(file: File) -> tuple[int, ...]:
    inode, state = file.inode, file.state
    mtime, ctime = (inode.mtime, inode.ctime) if state is None else (state.mtime, state.ctime)
    changed, changed_rest = time_of(ctime)
    modified, modified_rest = (changed, changed_rest) if mtime == ctime else time_of(mtime)
    return inode.size, modified, modified_rest, changed, changed_rest


def time_of(moment: int) -> tuple[int, int]:
    """Nanoseconds since 1970 as seconds and a rest; what lies outside of 1970 to 2106 is brought to the nearer end."""
    if not 0 <= moment <= LATEST:
        moment = LATEST if moment > 0 else 0
    return moment // NANOSECONDS, moment % NANOSECONDS


def set_attributes_of(wanted: sattr3) -> SetAttributes:
    """RFC 1813 2.6, sattr3."""
    return SetAttributes(
        wanted.mode, wanted.uid, wanted.gid, wanted.size, _wanted_time(wanted.atime), _wanted_time(wanted.mtime)
    )


def remembered_attributes_of(wanted: sattr3) -> SetAttributes:
    """The same of a `sattr3` that comes again, as the same object: one client makes all of its files alike."""
    known = _wishes.get(id(wanted))
    if known is not None and known[0] is wanted:
        return known[1]
    if len(_wishes) >= WISHES_KEPT:
        _wishes.clear()
    made = set_attributes_of(wanted)
    _wishes[id(wanted)] = (wanted, made)  # which keeps it, so that no other one can have its id
    return made


_wishes: dict[int, tuple[sattr3, SetAttributes]] = {}


def _wanted_time(wanted: set_atime | set_mtime) -> int | ServerTime | None:
    if wanted.discriminant == time_how.DONT_CHANGE:
        return None
    return ServerTime.NOW if wanted.discriminant == time_how.SET_TO_SERVER_TIME else nanoseconds_of(wanted.value)


def nanoseconds_of(time: nfstime3) -> int:
    """Not every client keeps the rest below a second."""
    return time.seconds * NANOSECONDS + time.nseconds
