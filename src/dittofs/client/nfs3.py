"""NFS version 3, one method per procedure, with handles in and results out.

Every method is ``arguments -> the result's success arm`` and raises `Nfs3Error` otherwise.  For pipelining there is
`EXCHANGES`: send with the transport, then `result_of` what comes back.
"""

from collections.abc import Iterator
from typing import Any

from dittofs.client.transports import Transport
from dittofs.protocols.nfs3 import types as t
from dittofs.rpc.calling import Exchange
from dittofs.xdr.types import XdrUnion

PROGRAM = 100003
VERSION = 3

NAMES = (
    *("NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK"),
    *("MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT"),
)
EXCHANGES = {
    name: Exchange(
        f"NFSPROC3_{name}",
        PROGRAM,
        VERSION,
        number,
        getattr(t, f"{name}3args", None),
        getattr(t, f"{name}3res", None),
    )
    for number, name in enumerate(NAMES)
}
NO_VERIFIER = bytes(t.NFS3_COOKIEVERFSIZE)


class Nfs3Error(Exception):
    """The server refused; `failure` is the failure arm of the result."""

    def __init__(self, name: str, status: t.nfsstat3, failure: Any):
        super().__init__(f"{name}: {status.name}")
        self.status = status
        self.failure = failure


def result_of(name: str, result: XdrUnion) -> Any:
    """The success arm of a result.  Raises Nfs3Error."""
    if result.discriminant != t.nfsstat3.NFS3_OK:
        raise Nfs3Error(name, t.nfsstat3(result.discriminant), result.value)
    return result.value


def attributes(
    *,
    mode: int | None = None,
    uid: int | None = None,
    gid: int | None = None,
    size: int | None = None,
    atime: t.nfstime3 | t.time_how = t.time_how.DONT_CHANGE,
    mtime: t.nfstime3 | t.time_how = t.time_how.DONT_CHANGE,
) -> t.sattr3:
    """Attributes to set; a time is one of the client's, or one of the other two ways."""
    return t.sattr3(mode, uid, gid, size, t.set_atime(*_how(atime)), t.set_mtime(*_how(mtime)))


def _how(time: t.nfstime3 | t.time_how) -> tuple[t.time_how, t.nfstime3 | None]:
    return (time, None) if isinstance(time, t.time_how) else (t.time_how.SET_TO_CLIENT_TIME, time)


class Nfs3Client:
    """The 22 procedures over one transport."""

    def __init__(self, transport: Transport):
        self.transport = transport

    def _call(self, name: str, arguments: Any) -> Any:
        return result_of(name, self.transport.call(EXCHANGES[name], arguments))

    def null(self) -> None:
        self.transport.call(EXCHANGES["NULL"])

    def getattr(self, file: bytes) -> t.fattr3:
        found: t.fattr3 = self._call("GETATTR", t.GETATTR3args(file)).obj_attributes
        return found

    def setattr(self, file: bytes, new: t.sattr3, guard: t.nfstime3 | None = None) -> t.SETATTR3resok:
        done: t.SETATTR3resok = self._call("SETATTR", t.SETATTR3args(file, new, guard))
        return done

    def lookup(self, directory: bytes, name: bytes) -> t.LOOKUP3resok:
        found: t.LOOKUP3resok = self._call("LOOKUP", t.LOOKUP3args(t.diropargs3(directory, name)))
        return found

    def access(self, file: bytes, wanted: int) -> t.ACCESS3resok:
        granted: t.ACCESS3resok = self._call("ACCESS", t.ACCESS3args(file, wanted))
        return granted

    def readlink(self, symlink: bytes) -> t.READLINK3resok:
        found: t.READLINK3resok = self._call("READLINK", t.READLINK3args(symlink))
        return found

    def read(self, file: bytes, offset: int, count: int) -> t.READ3resok:
        found: t.READ3resok = self._call("READ", t.READ3args(file, offset, count))
        return found

    def write(
        self, file: bytes, offset: int, data: bytes, stable: t.stable_how = t.stable_how.FILE_SYNC
    ) -> t.WRITE3resok:
        done: t.WRITE3resok = self._call("WRITE", t.WRITE3args(file, offset, len(data), stable, data))
        return done

    def create(self, directory: bytes, name: bytes, how: t.createhow3 | t.sattr3 | None = None) -> t.CREATE3resok:
        """Attributes alone stand for GUARDED."""
        if not isinstance(how, t.createhow3):
            how = t.createhow3(t.createmode3.GUARDED, how or attributes(mode=0o644))
        made: t.CREATE3resok = self._call("CREATE", t.CREATE3args(t.diropargs3(directory, name), how))
        return made

    def mkdir(self, directory: bytes, name: bytes, new: t.sattr3 | None = None) -> t.MKDIR3resok:
        where = t.diropargs3(directory, name)
        made: t.MKDIR3resok = self._call("MKDIR", t.MKDIR3args(where, new or attributes(mode=0o755)))
        return made

    def symlink(self, directory: bytes, name: bytes, target: bytes, new: t.sattr3 | None = None) -> t.SYMLINK3resok:
        link = t.symlinkdata3(new or attributes(mode=0o777), target)
        made: t.SYMLINK3resok = self._call("SYMLINK", t.SYMLINK3args(t.diropargs3(directory, name), link))
        return made

    def mknod(self, directory: bytes, name: bytes, what: t.mknoddata3) -> t.MKNOD3resok:
        made: t.MKNOD3resok = self._call("MKNOD", t.MKNOD3args(t.diropargs3(directory, name), what))
        return made

    def remove(self, directory: bytes, name: bytes) -> t.REMOVE3resok:
        done: t.REMOVE3resok = self._call("REMOVE", t.REMOVE3args(t.diropargs3(directory, name)))
        return done

    def rmdir(self, directory: bytes, name: bytes) -> t.RMDIR3resok:
        done: t.RMDIR3resok = self._call("RMDIR", t.RMDIR3args(t.diropargs3(directory, name)))
        return done

    def rename(self, directory: bytes, name: bytes, to_directory: bytes, to_name: bytes) -> t.RENAME3resok:
        arguments = t.RENAME3args(t.diropargs3(directory, name), t.diropargs3(to_directory, to_name))
        done: t.RENAME3resok = self._call("RENAME", arguments)
        return done

    def link(self, file: bytes, directory: bytes, name: bytes) -> t.LINK3resok:
        made: t.LINK3resok = self._call("LINK", t.LINK3args(file, t.diropargs3(directory, name)))
        return made

    def readdir(
        self, directory: bytes, cookie: int = 0, verifier: bytes = NO_VERIFIER, count: int = 8192
    ) -> t.READDIR3resok:
        found: t.READDIR3resok = self._call("READDIR", t.READDIR3args(directory, cookie, verifier, count))
        return found

    def readdirplus(
        self,
        directory: bytes,
        cookie: int = 0,
        verifier: bytes = NO_VERIFIER,
        dircount: int = 8192,
        maxcount: int = 32_768,
    ) -> t.READDIRPLUS3resok:
        arguments = t.READDIRPLUS3args(directory, cookie, verifier, dircount, maxcount)
        found: t.READDIRPLUS3resok = self._call("READDIRPLUS", arguments)
        return found

    def list_directory(self, directory: bytes) -> Iterator[t.entryplus3]:
        """All entries, in as many calls as it takes."""
        cookie, verifier = 0, NO_VERIFIER
        while True:
            part = self.readdirplus(directory, cookie, verifier)
            assert isinstance(part.reply, t.dirlistplus3), "a decoded list is not encoded"
            for entry in part.reply.entries:
                yield entry
                cookie = entry.cookie
            if part.reply.eof:
                return
            verifier = part.cookieverf

    def fsstat(self, file: bytes) -> t.FSSTAT3resok:
        found: t.FSSTAT3resok = self._call("FSSTAT", t.FSSTAT3args(file))
        return found

    def fsinfo(self, file: bytes) -> t.FSINFO3resok:
        found: t.FSINFO3resok = self._call("FSINFO", t.FSINFO3args(file))
        return found

    def pathconf(self, file: bytes) -> t.PATHCONF3resok:
        found: t.PATHCONF3resok = self._call("PATHCONF", t.PATHCONF3args(file))
        return found

    def commit(self, file: bytes, offset: int = 0, count: int = 0) -> t.COMMIT3resok:
        done: t.COMMIT3resok = self._call("COMMIT", t.COMMIT3args(file, offset, count))
        return done
