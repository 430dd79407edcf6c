"""A lock on a file of a server, held by this process without any mount: found, taken, kept, given back."""

import os
import random
import secrets
import select
import socket
import time
from dataclasses import dataclass

from dittofs.client import mount, portmap
from dittofs.client.callbacks import Callbacks
from dittofs.client.nfs3 import Nfs3Client, Nfs3Error, attributes
from dittofs.client.nlm import LockOwner, NlmClient, Range
from dittofs.client.transports import NoReply, TcpTransport
from dittofs.protocols.nfs3.types import createhow3, createmode3, ftype3, nfsstat3
from dittofs.protocols.nlm.types import PROGRAM, nlm4_stats, nlm4_testargs
from dittofs.rpc.calling import CallFailed, auth_sys

POLL_SECONDS = (0.1, 1.0)
"""Without callbacks the lock is asked for again after so long, the longer the more often it was refused."""

CALLBACK_SECONDS = 15.0
"""With callbacks it is asked for again after so long: one may have got lost."""

RELEASE_SECONDS = 60.0
CONNECT_SECONDS = 10.0


class LockFailed(Exception):
    """The lock cannot be had; the message says why."""


class HeldByOther(LockFailed):
    """Somebody else has it."""


FAILURES = (LockFailed, mount.MountRefused, Nfs3Error, CallFailed, NoReply, OSError)
"""Whatever can go wrong with a server that is asked for a lock."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which file of which server; `port` is that of every program, None to ask the server's port mapper."""

    host: str
    export: str
    path: str
    port: int | None = None


class RemoteLock:
    """One lock of one owner, who is nobody else's equal."""

    def __init__(self, place: Place, *, offset: int, length: int, exclusive: bool):
        self.place = place
        self.exclusive = exclusive
        self._name = socket.gethostname().encode()
        unique = secrets.token_hex(4).encode()
        self._owner = LockOwner(os.getpid(), b"%d@%s-%s" % (os.getpid(), self._name, unique))
        self._credential = auth_sys(uid=os.geteuid(), gid=os.getegid(), groups=os.getgroups(), machine_name=self._name)
        self._range = Range(handle=self._find_file(), offset=offset, length=length)
        self._nlm = self._connect()

    def take(self, *, wait: bool) -> None:
        """Raises HeldByOther at once, unless it is to wait; LockFailed, CallFailed, NoReply, OSError."""
        if not wait:
            self._check(self._lock(block=False), is_final=True)
            return
        with Callbacks(self._nlm.transport.socket.getsockname()[0]) as callbacks:
            self._wait(callbacks)

    def _wait(self, callbacks: Callbacks) -> None:
        tries = 0
        while True:
            wanted = self._nlm.lock_arguments(self._owner, self._range, exclusive=self.exclusive)
            callbacks.expect(nlm4_testargs(wanted.cookie, wanted.exclusive, wanted.alock))
            status = self._lock(block=callbacks.is_reachable)
            if status is nlm4_stats.NLM4_GRANTED:
                return
            self._check(status, is_final=False)
            if status is nlm4_stats.NLM4_BLOCKED:
                if callbacks.wait(CALLBACK_SECONDS * random.uniform(0.8, 1.2)):
                    return
                continue
            tries += 1
            time.sleep(min(POLL_SECONDS[0] * tries, POLL_SECONDS[1]) * random.uniform(0.5, 1.5))

    def check(self) -> str | None:
        """While it is held: if the connection is gone the server may have been restarted, and then locks have to be
        asked for again.  What is wrong, if something is."""
        if not _is_closed(self._nlm.transport.socket):
            return None
        try:
            self._reconnect()
            status = self._nlm.lock(self._owner, self._range, exclusive=self.exclusive, reclaim=True)
            if status is not nlm4_stats.NLM4_GRANTED:  # no grace period, so nothing was lost, or all is over
                status = self._lock(block=False)
        except (CallFailed, NoReply, OSError) as error:
            return f"the server is away: {error}"
        return None if status is nlm4_stats.NLM4_GRANTED else f"the lock is lost: {status.name}"

    def give_back(self) -> None:
        """Whatever there is of it: the wait, a grant that is on its way, the lock.  Tries for a minute.

        Raises CallFailed, NoReply or OSError if the server never took it back."""
        deadline = time.monotonic() + RELEASE_SECONDS
        while True:
            try:
                self._nlm.cancel(self._owner, self._range, exclusive=self.exclusive)
                self._nlm.unlock(self._owner, self._range)
                break
            except (CallFailed, NoReply, OSError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS[1])
            try:
                self._reconnect()
            except (CallFailed, NoReply, OSError):
                continue
        self._nlm.transport.close()

    def _lock(self, *, block: bool) -> nlm4_stats:
        return self._nlm.lock(self._owner, self._range, exclusive=self.exclusive, block=block)

    def _check(self, status: nlm4_stats, *, is_final: bool) -> None:
        """Raises for a status that waiting does not mend, or, if nobody waits, for any but GRANTED."""
        match status:
            case nlm4_stats.NLM4_GRANTED | nlm4_stats.NLM4_BLOCKED:
                return
            case nlm4_stats.NLM4_DENIED:
                if is_final:
                    raise HeldByOther(self._who_is_in_the_way())
            case nlm4_stats.NLM4_DENIED_GRACE_PERIOD:
                if is_final:
                    raise LockFailed("the server was restarted and gives out no new locks yet (grace period)")
            case nlm4_stats.NLM4_DENIED_NOLOCKS:
                if is_final:
                    raise LockFailed("the server has no room for more locks or waiters")
            case _:
                raise LockFailed(f"the server refuses the lock: {status.name}")

    def _who_is_in_the_way(self) -> str:
        status, holder = self._nlm.test(self._owner, self._range, exclusive=self.exclusive)
        if status is not nlm4_stats.NLM4_DENIED:
            return "somebody else held it a moment ago"
        owner = holder.oh.decode("ascii", "backslashreplace")
        end = "the end" if holder.l_len == 0 else f"byte {holder.l_offset + holder.l_len}"
        kind = "exclusive" if holder.exclusive else "shared"
        return f"held by process {holder.svid} ({owner}), {kind}, from byte {holder.l_offset} to {end}"

    # Finding the file and the service.

    def _transport(self, program: int, version: int) -> TcpTransport:
        host, port = self.place.host, self.place.port
        if port is None:
            with TcpTransport(host, portmap.PORT, timeout_seconds=CONNECT_SECONDS) as asking:
                port = portmap.port_of(asking, program, version)
            if not port:
                raise LockFailed(f"{host} has no program {program} version {version}")
        return TcpTransport(host, port, credential=self._credential, timeout_seconds=CONNECT_SECONDS)

    def _connect(self) -> NlmClient:
        return NlmClient(self._transport(PROGRAM, 4), self._name)

    def _reconnect(self) -> None:
        self._nlm.transport.close()
        self._nlm = self._connect()

    def _find_file(self) -> bytes:
        """The handle; the file is made if it is not there, as flock(1) does."""
        with self._transport(mount.PROGRAM, mount.VERSION) as transport:
            handle = mount.mount(transport, self.place.export).fhandle
        *directories, name = [part.encode("utf-8", "surrogateescape") for part in self.place.path.split("/") if part]
        with self._transport(100003, 3) as transport:
            nfs = Nfs3Client(transport)
            for directory in directories:
                handle = nfs.lookup(handle, directory).object
            try:
                found = nfs.lookup(handle, name).object
            except Nfs3Error as error:
                if error.status is not nfsstat3.NFS3ERR_NOENT:
                    raise
                umask = os.umask(0o077)
                os.umask(umask)
                how = createhow3(createmode3.UNCHECKED, attributes(mode=0o666 & ~umask))
                nfs.create(handle, name, how)
                found = nfs.lookup(handle, name).object
            if nfs.getattr(found).type is not ftype3.NF3REG:
                raise LockFailed(f"{self.place.path} is no regular file")
        return found


def _is_closed(connection: socket.socket) -> bool:
    """Nothing is expected on it, so that it can only become readable by its end."""
    if connection.fileno() < 0:  # the last try to connect again failed
        return True
    try:
        readable = select.select([connection], [], [], 0)[0]
        return bool(readable) and not connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return True
