#!/usr/bin/env python3
"""POSIX byte-range lock semantics seen by two owners.

  posixlocks.py FILE                     both owners on this mount
  posixlocks.py FILE --path-b FILE2      owner B uses another path (for
        instance a second mount made with nosharecache: the client then
        cannot resolve the conflict locally, the server has to)
  posixlocks.py --serve PORT FILE        on the other client ...
  posixlocks.py FILE --peer HOST:PORT    ... and owner B lives there

Prints one line per check; exit status 1 if any failed.
"""

import argparse
import errno
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import time

FLOCK = "hhqqi4x"  # struct flock on 64-bit Linux
EOF = 0
MAX = 2**63 - 1
NAMES = {fcntl.F_RDLCK: "R", fcntl.F_WRLCK: "W", fcntl.F_UNLCK: "U"}
TYPES = {v: k for k, v in NAMES.items()}


class Owner:
    """Executes lock commands; one instance per process (= per lock owner)."""

    def __init__(self, path):
        self.path = path
        self.fds = {}

    def fd(self, key="main"):
        if key not in self.fds:
            self.fds[key] = os.open(
                self.path, os.O_RDONLY if key == "ro" else os.O_WRONLY if key == "wo" else os.O_RDWR | os.O_CREAT, 0o666
            )
        return self.fds[key]

    def lock(self, typ, start, length, wait=False, fd="main", whence=0, timeout=None):
        arg = struct.pack(FLOCK, TYPES[typ], whence, start, length, 0)
        cmd = fcntl.F_SETLKW if wait else fcntl.F_SETLK
        t = time.time()
        if timeout:

            def ring(*_):
                raise TimeoutError

            signal.signal(signal.SIGALRM, ring)
            signal.setitimer(signal.ITIMER_REAL, timeout)
        try:
            fcntl.fcntl(self.fd(fd), cmd, arg)
            return {"ok": True, "waited": time.time() - t}
        except TimeoutError:
            return {"ok": False, "errno": "TIMEOUT", "waited": time.time() - t}
        except OSError as e:
            return {"ok": False, "errno": errno.errorcode.get(e.errno, e.errno)}
        finally:
            if timeout:
                signal.setitimer(signal.ITIMER_REAL, 0)

    def getlk(self, typ, start, length, fd="main"):
        r = fcntl.fcntl(self.fd(fd), fcntl.F_GETLK, struct.pack(FLOCK, TYPES[typ], 0, start, length, 0))
        t, whence, s, ln, pid = struct.unpack(FLOCK, r)
        return {"type": NAMES[t], "start": s, "len": ln, "pid": pid}

    def close(self, fd="main"):
        os.close(self.fds.pop(fd))
        return {}

    def open(self, fd):
        self.fd(fd)
        return {}

    def truncate(self, size):
        os.ftruncate(self.fd(), size)
        return {}

    def reset(self):
        for f in self.fds.values():
            os.close(f)
        self.fds = {}
        return {}

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)


def serve_stream(f, path):
    o = Owner(path)
    for line in f:
        q = json.loads(line)
        try:
            r = getattr(o, q.pop("op"))(**q)
        except Exception as e:
            r = {"exception": repr(e)}
        f.write(json.dumps(r) + "\n")
        f.flush()


class Remote:
    """Drives an Owner in a child process or on the other client."""

    def __init__(self, path=None, peer=None):
        if peer:
            host, port = peer.split(":")
            end = time.time() + 60
            while True:
                try:
                    s = socket.create_connection((host, int(port)), 5)
                    break
                except OSError:
                    if time.time() > end:
                        raise
                    time.sleep(0.2)
            s.settimeout(120)
            self.pid = None
        else:
            s, c = socket.socketpair()
            self.pid = os.fork()
            if self.pid == 0:
                s.close()
                try:
                    serve_stream(c.makefile("rw"), path)
                finally:
                    os._exit(0)
            c.close()
        self.f = s.makefile("rw")

    def send(self, op, **k):
        self.f.write(json.dumps(dict(op=op, **k)) + "\n")
        self.f.flush()

    def recv(self):
        line = self.f.readline()
        if not line:
            return {"gone": True}
        r = json.loads(line)
        if "exception" in r:
            raise RuntimeError(r["exception"])
        return r

    def __call__(self, op, **k):
        self.send(op, **k)
        return self.recv()

    def lock(self, typ, start, length, **k):
        return self("lock", typ=typ, start=start, length=length, **k)

    def can(self, typ, start, length):
        """Would the lock be granted?  Tries it for real and undoes it."""
        r = self.lock(typ, start, length)
        if r["ok"]:
            self.lock("U", start, length)
            return True
        if r["errno"] not in ("EAGAIN", "EACCES"):
            raise RuntimeError(r["errno"])
        return False


FAILED = []


def check(name, cond, info=""):
    print(
        "%s  %s%s" % ("ok  " if cond else "FAIL", name, "  [%s]" % (info,) if not cond and info != "" else ""),
        flush=True,
    )
    if not cond:
        FAILED.append(name)


def scan(b, n):
    """Which of the bytes 0..n-1 can owner B lock for writing: '.' yes, 'X' no."""
    return "".join("." if b.can("W", i, 1) else "X" for i in range(n))


def rscan(b, n):
    return "".join("." if b.can("R", i, 1) else "X" for i in range(n))


def tests(a, b, local, new_a, nfs4=False):
    def fresh():
        a("reset")
        b("reset")

    r = a.lock("W", 0, 10)
    check("write lock granted", r["ok"], r)
    check("exclusive: other owner refused", scan(b, 12) == "X" * 10 + "..", scan(b, 12))
    check("exclusive: readers refused too", rscan(b, 11) == "X" * 10 + ".")
    r = a.lock("U", 4, 2)
    check("unlock in the middle splits", r["ok"] and scan(b, 10) == "XXXX..XXXX", scan(b, 10))
    a.lock("W", 4, 2)
    check("lock of the gap merges", scan(b, 12) == "X" * 10 + "..")
    a.lock("U", 0, 3)
    check("unlock at the front trims", scan(b, 10) == "...XXXXXXX")
    a.lock("U", 8, 100)
    check("unlock beyond the end trims", scan(b, 10) == "...XXXXX..")
    a.lock("U", 0, EOF)
    check("unlock 0..EOF frees all", scan(b, 10) == "." * 10)
    r = a.lock("U", 0, EOF)
    check("unlock of what is not locked succeeds", r["ok"], r)
    fresh()

    a.lock("R", 0, 10)
    check("shared lock admits readers", b.can("R", 0, 10))
    check("shared lock refuses writers", scan(b, 11) == "X" * 10 + ".")
    r = a.lock("W", 3, 4)
    check("upgrade of a part", r["ok"] and rscan(b, 10) == "...XXXX...", r)
    r = a.lock("R", 4, 1)
    check("downgrade of a part", r["ok"] and rscan(b, 10) == "...X.XX...", r)
    check("downgraded part still refuses writers", scan(b, 10) == "X" * 10)
    b.lock("R", 0, 2)
    r = a.lock("W", 0, 2)
    check("upgrade refused while another reads", not r["ok"] and r["errno"] in ("EAGAIN", "EACCES"), r)
    check("failed upgrade keeps the shared lock", rscan(b, 2) == ".." and not b.can("W", 1, 1))
    b.lock("U", 0, 2)
    r = a.lock("W", 0, 2)
    check("upgrade granted after that", r["ok"], r)
    fresh()

    a.lock("W", 5, 5)
    a.lock("W", 10, 5)
    g = b("getlk", typ="W", start=0, length=EOF)
    check(
        "F_GETLK: adjacent locks are reported as one or the first",
        g["type"] == "W" and g["start"] == 5 and g["len"] in (5, 10),
        g,
    )
    g = b("getlk", typ="R", start=12, length=1)
    check("F_GETLK: conflict for a reader", g["type"] == "W" and g["start"] <= 12 < g["start"] + g["len"], g)
    g = b("getlk", typ="W", start=15, length=EOF)
    check("F_GETLK: no conflict after the lock", g["type"] == "U", g)
    g = b("getlk", typ="W", start=0, length=5)
    check("F_GETLK: no conflict before the lock", g["type"] == "U", g)
    g = a("getlk", typ="W", start=0, length=EOF)
    check("F_GETLK: own locks do not conflict", g["type"] == "U", g)
    a.lock("R", 5, 10)
    g = b("getlk", typ="R", start=5, length=1)
    check("F_GETLK: reader against reader is free", g["type"] == "U", g)
    g = b("getlk", typ="W", start=5, length=1)
    check("F_GETLK: type of the holder is R", g["type"] == "R", g)
    fresh()

    a.lock("W", 100, EOF)
    check(
        "length 0 reaches to the largest offset",
        not b.can("W", MAX - 1, 1) and not b.can("W", 2**40, 5) and b.can("W", 0, 100),
    )
    g = b("getlk", typ="W", start=200, length=1)
    check("F_GETLK: length 0 is reported as 0", g["type"] == "W" and g["start"] == 100 and g["len"] == 0, g)
    a.lock("U", 1000, EOF)
    check("tail of a to-EOF lock can be freed", b.can("W", 1000, EOF) and not b.can("W", 999, 1))
    a.lock("W", 1000, 10)
    a.lock("W", 1010, EOF)
    check("to-EOF lock can be rebuilt", not b.can("W", 5000, 1))
    fresh()

    a.lock("W", 2**32 - 2, 4)
    check(
        "lock across 4 GiB",
        not b.can("W", 2**32 - 2, 1)
        and not b.can("W", 2**32 + 1, 1)
        and b.can("W", 2**32 + 2, 1)
        and b.can("W", 2**32 - 3, 1)
        and b.can("W", 0, 2),
    )
    a.lock("U", 0, EOF)
    a.lock("W", 2**62, 2**20)
    check("lock at 2^62", not b.can("R", 2**62 + 2**20 - 1, 1) and b.can("R", 2**62 + 2**20, 1))
    a.lock("U", 0, EOF)
    r = a.lock("W", MAX - 1, 1)
    check("last but one byte", r["ok"] and not b.can("W", MAX - 1, 1), r)
    fresh()

    a("truncate", size=1000)
    r = a.lock("W", -10, 10, whence=2)
    check("SEEK_END relative", r["ok"] and not b.can("W", 990, 1) and b.can("W", 989, 1) and b.can("W", 1000, 1), r)
    r = a.lock("W", 50, -10)
    check(
        "negative length",
        r["ok"] and not b.can("W", 40, 1) and not b.can("W", 49, 1) and b.can("W", 39, 1) and b.can("W", 50, 1),
        r,
    )
    fresh()

    r = a.lock("W", 0, 1, fd="ro")
    check("write lock on a read-only descriptor: EBADF", not r["ok"] and r["errno"] == "EBADF", r)
    r = a.lock("R", 0, 1, fd="wo")
    check("read lock on a write-only descriptor: EBADF", not r["ok"] and r["errno"] == "EBADF", r)
    fresh()

    a.lock("W", 0, 10)
    a("open", fd="second")
    a("close", fd="second")
    check("closing any descriptor of the file drops the locks", b.can("W", 0, 10))
    fresh()

    # many pieces: 64 locks, every other one freed, then everything
    for i in range(64):
        a.lock("W", i * 2, 1)
    check("64 separate locks", scan(b, 20) == "X." * 10, scan(b, 20))
    a.lock("W", 0, 128)
    check("one lock over all of them", scan(b, 20) == "X" * 20)
    a.lock("U", 0, 128)
    check("one unlock over all of them", scan(b, 20) == "." * 20)
    fresh()

    # blocking
    a.lock("W", 0, 10)
    b.send("lock", typ="W", start=5, length=10, wait=True, timeout=60)
    time.sleep(2)
    a.lock("U", 0, 10)
    t = time.time()
    r = b.recv()
    lat = time.time() - t
    check("F_SETLKW wakes up after the unlock", r["ok"] and r["waited"] > 1, r)
    print("      wake-up latency after unlock: %.2fs" % lat, flush=True)
    check("F_SETLKW: the lock is really held", not a.can("W", 5, 1) and a.can("W", 4, 1))
    fresh()
    a.lock("W", 0, 10)
    b.send("lock", typ="W", start=0, length=10, wait=True, timeout=60)
    time.sleep(2)
    a("close")
    r = b.recv()
    check("F_SETLKW wakes up after close", r["ok"], r)
    fresh()
    a.lock("R", 0, 10)
    b.send("lock", typ="W", start=0, length=10, wait=True, timeout=60)
    time.sleep(1)
    a.lock("U", 0, 5)
    time.sleep(1)
    a.lock("U", 5, 5)
    r = b.recv()
    check("F_SETLKW waits until the last conflicting piece is gone", r["ok"] and r["waited"] > 1.5, r)
    fresh()
    a.lock("W", 0, 10)
    b.send("lock", typ="W", start=0, length=10, wait=True, timeout=60)
    time.sleep(1)
    r2 = a.lock("R", 0, 10)
    time.sleep(1)
    a.lock("U", 0, 10)
    r = b.recv()
    check("downgrade is granted although a writer waits", r2["ok"], r2)
    check("a downgrade does not wake up a writer", r["ok"] and r["waited"] > 1.5, r)
    fresh()
    # cancel: B gives up waiting; nothing may be left behind
    a.lock("W", 0, 10)
    r = b.lock("W", 0, 10, wait=True, timeout=2)
    check("F_SETLKW can be interrupted", not r["ok"] and r["errno"] in ("TIMEOUT", "EINTR"), r)
    a.lock("U", 0, 10)
    time.sleep(1)
    r = a.lock("W", 0, 10)
    check("an interrupted waiter leaves no lock behind", r["ok"], r)
    fresh()

    # death of the holder
    x = new_a()
    x.lock("W", 0, 10)
    check("third owner holds the lock", not b.can("W", 0, 1))
    x.send("die")
    x.recv()
    time.sleep(1)
    check("death of the process frees its locks", b.can("W", 0, 10))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("path")
    ap.add_argument("--path-b")
    ap.add_argument("--peer")
    ap.add_argument("--serve", type=int)
    a = ap.parse_args()
    if a.serve:
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("", a.serve))
        s.listen(1)
        c, _ = s.accept()
        serve_stream(c.makefile("rw"), a.path)
        return 0
    A = Remote(a.path)
    B = Remote(a.path_b or a.path, a.peer)
    A("reset")
    A("open", fd="main")
    t = time.time()
    tests(A, B, not a.peer, lambda: Remote(a.path))
    print("posixlocks: %d failed, %.1fs" % (len(FAILED), time.time() - t), flush=True)
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
