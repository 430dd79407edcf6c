"""Copies trees between a local directory and a share: content with its holes, names, hard links, owners, modes, times.

A file gets its time of modification when everything else is there, so a file with the right size and time is whole:
a copy that was interrupted goes on where it stopped when it is started again.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from dittofs.client.mount import MountRefused, mount
from dittofs.client.nfs3 import Nfs3Client, Nfs3Error, attributes
from dittofs.client.transports import NoReply, TcpTransport
from dittofs.protocols.nfs3 import types as t
from dittofs.rpc.calling import CallFailed, auth_sys

BLOCK = 256 * 1024
HOLE = 4096
NANOSECONDS = 1_000_000_000
TRIES = 3

SPECIAL = {
    stat.S_IFIFO: t.ftype3.NF3FIFO,
    stat.S_IFSOCK: t.ftype3.NF3SOCK,
    stat.S_IFCHR: t.ftype3.NF3CHR,
    stat.S_IFBLK: t.ftype3.NF3BLK,
}


class CannotCopy(Exception):
    """One thing could not be copied; the message says which and why."""


@dataclass(slots=True)
class Progress:
    """What was done so far."""

    files: int = 0
    directories: int = 0
    links: int = 0
    skipped: int = 0
    bytes: int = 0
    at: str = ""
    unowned: int = 0
    """Things whose owner could not be kept."""
    problems: list[str] = field(default_factory=list)


Tell = Callable[[Progress], None]
FAILURES = (NoReply, CallFailed, OSError, CannotCopy)


@contextmanager
def mounted(address: str, port: int, share: str) -> Iterator[tuple[Nfs3Client, bytes]]:
    """A client as the user of this process, and the handle of a share's root.  Raises FAILURES."""
    credential = auth_sys(uid=os.geteuid(), gid=os.getegid())
    with TcpTransport(address, port, credential=credential) as transport:
        try:
            root = mount(transport, share).fhandle
        except MountRefused as error:
            raise CannotCopy(f"{share} cannot be mounted: {error}") from error
        yield Nfs3Client(transport), root


def moment(nanoseconds: int) -> t.nfstime3:
    return t.nfstime3(*divmod(max(nanoseconds, 0), NANOSECONDS))


def nanoseconds(time: t.nfstime3) -> int:
    return time.seconds * NANOSECONDS + time.nseconds


class Importer:
    """From a local directory into a share."""

    def __init__(self, client: Nfs3Client, tell: Tell):
        self._client = client
        self._tell = tell
        self._linked: dict[tuple[int, int], bytes] = {}
        self.progress = Progress()

    def run(self, source: bytes, target: bytes) -> Progress:
        """Everything below `source` goes into the directory with the handle `target`."""
        self._directory(source, target)
        # The root of a share belongs to its operator: whoever may not change it leaves it as it is.
        with suppress(Nfs3Error):
            self._finish(target, os.lstat(source))
        return self.progress

    def _directory(self, source: bytes, target: bytes) -> None:
        self.progress.directories += 1
        with os.scandir(source) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            self.progress.at = os.fsdecode(entry.path)
            self._tell(self.progress)
            try:
                self._entry(entry.path, entry.name, target)
            except (OSError, Nfs3Error) as error:
                self.progress.problems.append(f"{os.fsdecode(entry.path)}: {error}")

    def _entry(self, path: bytes, name: bytes, directory: bytes) -> None:
        found = os.lstat(path)
        present = self._lookup(directory, name)
        if stat.S_ISDIR(found.st_mode):
            made = present[0] if present else _handle(self._client.mkdir(directory, name).obj)
            self._directory(path, made)
            self._finish(made, found)
            return
        if found.st_nlink > 1:
            first = self._linked.get((found.st_dev, found.st_ino))
            if first is not None:
                if present is None:
                    self._client.link(first, directory, name)
                self.progress.links += 1
                return
        if present is not None and _is_same(present[1], found):
            self.progress.skipped += 1
            self.progress.bytes += found.st_size if stat.S_ISREG(found.st_mode) else 0
            made = present[0]
        else:
            if present is not None:
                self._client.remove(directory, name)
            made = self._make(path, name, directory, found)
            self._finish(made, found)
        if found.st_nlink > 1:
            self._linked[found.st_dev, found.st_ino] = made

    def _make(self, path: bytes, name: bytes, directory: bytes, found: os.stat_result) -> bytes:
        kind = stat.S_IFMT(found.st_mode)
        self.progress.files += 1
        if kind == stat.S_IFREG:
            made = _handle(self._client.create(directory, name, attributes(mode=0o600)).obj)
            self._content(path, made, found.st_size)
            return made
        if kind == stat.S_IFLNK:
            return _handle(self._client.symlink(directory, name, os.readlink(path)).obj)
        new = attributes(mode=stat.S_IMODE(found.st_mode))
        what: object = new
        if kind in (stat.S_IFCHR, stat.S_IFBLK):
            what = t.devicedata3(new, t.specdata3(os.major(found.st_rdev), os.minor(found.st_rdev)))
        return _handle(self._client.mknod(directory, name, t.mknoddata3(SPECIAL[kind], what)).obj)

    def _content(self, path: bytes, file: bytes, size: int) -> None:
        with open(path, "rb", buffering=0) as source:
            for _ in range(TRIES):
                verifiers = {self._write(file, offset, data) for offset, data in _data(source.fileno(), size)}
                verifiers.add(self._client.commit(file).verf)
                if len(verifiers) == 1:
                    break
            else:
                raise OSError(errno.EIO, "the server restarted again and again")
        self._client.setattr(file, attributes(size=size))

    def _write(self, file: bytes, offset: int, data: bytes) -> bytes:
        """All of it; the verifier that tells whether the server kept it."""
        verifier = b""
        while data:
            done = self._client.write(file, offset, data, t.stable_how.UNSTABLE)
            verifier = done.verf
            self.progress.bytes += done.count
            offset, data = offset + done.count, data[done.count :]
        self._tell(self.progress)
        return verifier

    def _finish(self, file: bytes, found: os.stat_result) -> None:
        """Owner first: giving a file away takes setuid and setgid from it."""
        try:
            self._client.setattr(file, attributes(uid=found.st_uid, gid=found.st_gid))
        except Nfs3Error:
            self.progress.unowned += 1
        mode = None if stat.S_ISLNK(found.st_mode) else stat.S_IMODE(found.st_mode)
        new = attributes(mode=mode, atime=moment(found.st_atime_ns), mtime=moment(found.st_mtime_ns))
        self._client.setattr(file, new)

    def _lookup(self, directory: bytes, name: bytes) -> tuple[bytes, t.fattr3] | None:
        try:
            found = self._client.lookup(directory, name).object
        except Nfs3Error as error:
            if error.status is t.nfsstat3.NFS3ERR_NOENT:
                return None
            raise
        return found, self._client.getattr(found)


def _handle(made: bytes | None) -> bytes:
    if made is None:
        raise OSError(errno.EIO, "the server tells no handle of what it made")
    return made


def _is_same(there: t.fattr3, here: os.stat_result) -> bool:
    kinds = {stat.S_IFREG: t.ftype3.NF3REG, stat.S_IFLNK: t.ftype3.NF3LNK, **SPECIAL}
    is_size_same = there.size == here.st_size or not stat.S_ISREG(here.st_mode)
    same_time = nanoseconds(there.mtime) == here.st_mtime_ns
    return there.type == kinds[stat.S_IFMT(here.st_mode)] and is_size_same and same_time


def _data(descriptor: int, size: int) -> Iterator[tuple[int, bytes]]:
    """What lies between the holes, in blocks."""
    offset = 0
    while offset < size:
        try:
            offset = os.lseek(descriptor, offset, os.SEEK_DATA)
            end = os.lseek(descriptor, offset, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            end = size  # a file system without holes
        while offset < min(end, size):
            data = os.pread(descriptor, min(BLOCK, end - offset), offset)
            if not data:
                return
            yield offset, data
            offset += len(data)


class Exporter:
    """From a share into a local directory."""

    def __init__(self, client: Nfs3Client, tell: Tell):
        self._client = client
        self._tell = tell
        self._linked: dict[int, bytes] = {}
        self.progress = Progress()

    def run(self, source: bytes, target: bytes) -> Progress:
        os.makedirs(target, exist_ok=True)
        self._directory(source, target)
        self._finish(target, self._client.getattr(source))
        return self.progress

    def _directory(self, source: bytes, target: bytes) -> None:
        self.progress.directories += 1
        for entry in list(self._client.list_directory(source)):
            if entry.name in (b".", b".."):
                continue
            path = os.path.join(target, entry.name)
            self.progress.at = os.fsdecode(path)
            self._tell(self.progress)
            try:
                if b"/" in entry.name or b"\0" in entry.name or not entry.name:
                    raise CannotCopy("the server sent a name that is none")
                self._entry(source, entry.name, path)
            except (OSError, Nfs3Error, CannotCopy) as error:
                self.progress.problems.append(f"{os.fsdecode(path)}: {error}")

    def _entry(self, directory: bytes, name: bytes, path: bytes) -> None:
        file = self._client.lookup(directory, name).object
        found = self._client.getattr(file)
        if found.type == t.ftype3.NF3DIR:
            if not os.path.isdir(path) or os.path.islink(path):
                os.mkdir(path, 0o700)
            self._directory(file, path)
            self._finish(path, found)
            return
        first = self._linked.get(found.fileid)
        if first is not None:
            if not os.path.lexists(path):
                os.link(first, path, follow_symlinks=False)
            self.progress.links += 1
            return
        if os.path.lexists(path) and _is_same(found, os.lstat(path)):
            self.progress.skipped += 1
        else:
            if os.path.lexists(path):
                os.unlink(path)
            self._make(file, found, path)
            self._finish(path, found)
        if found.nlink > 1:
            self._linked[found.fileid] = path

    def _make(self, file: bytes, found: t.fattr3, path: bytes) -> None:
        self.progress.files += 1
        if found.type == t.ftype3.NF3REG:
            self._content(file, found.size, path)
        elif found.type == t.ftype3.NF3LNK:
            os.symlink(self._client.readlink(file).data, path)
        else:
            kind = next(kind for kind, there in SPECIAL.items() if there == found.type)
            os.mknod(path, kind | 0o600, os.makedev(found.rdev.specdata1, found.rdev.specdata2))

    def _content(self, file: bytes, size: int, path: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            offset = 0
            while offset < size:
                part = self._client.read(file, offset, BLOCK)
                data = bytes(part.data)
                _write_sparsely(descriptor, offset, data)
                offset += len(data)
                self.progress.bytes += len(data)
                self._tell(self.progress)
                if part.eof or not data:
                    break
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _finish(self, path: bytes, found: t.fattr3) -> None:
        try:
            os.chown(path, found.uid, found.gid, follow_symlinks=False)
        except PermissionError:
            self.progress.unowned += found.uid != os.geteuid()
        if found.type != t.ftype3.NF3LNK:
            os.chmod(path, found.mode & 0o7777)
        os.utime(path, ns=(nanoseconds(found.atime), nanoseconds(found.mtime)), follow_symlinks=False)


def _write_sparsely(descriptor: int, offset: int, data: bytes) -> None:
    """Runs of zeros stay holes."""
    for start in range(0, len(data), HOLE):
        block = data[start : start + HOLE]
        if block.strip(b"\0"):
            os.pwrite(descriptor, block, offset + start)
