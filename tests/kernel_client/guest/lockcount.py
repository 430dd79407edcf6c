#!/usr/bin/env python3
"""Mutual exclusion under F_SETLKW: N processes on one or more clients
increment counters, each counter protected by its own byte-range lock.

  lockcount.py DIR --procs 4 --loops 100 [--counters 2] [--clients 2 --tag T]

With --clients 2 both clients run the same command; they meet at barriers in
$KC_SCRATCH and every client verifies the sums.  Inside the lock a process
also writes its identity and reads it back through a second read, so that
two simultaneous holders are noticed at once, not only in the final sum.
"""

import argparse
import fcntl
import os
import struct
import subprocess
import sys
import time

SLOT = 64  # bytes per counter: lock range and record
HERE = os.path.dirname(os.path.realpath(__file__))


def sync(*a):
    subprocess.run([os.path.join(HERE, "kcsync"), *a], check=True)


def worker(path, me, loops, counters, hold):
    bad = 0
    waits = []
    for i in range(loops):
        c = (i + me) % counters
        # a new descriptor every time: open() revalidates the cached file
        fd = os.open(path, os.O_RDWR)
        t = time.time()
        fcntl.lockf(fd, fcntl.LOCK_EX, SLOT, c * SLOT)
        waits.append(time.time() - t)
        n, _ = struct.unpack("<QQ", os.pread(fd, 16, c * SLOT))
        os.pwrite(fd, struct.pack("<QQ", n, me), c * SLOT)
        if hold:
            time.sleep(hold)
        m, who = struct.unpack("<QQ", os.pread(fd, 16, c * SLOT))
        if m != n or who != me:
            bad += 1
        os.pwrite(fd, struct.pack("<QQ", n + 1, me), c * SLOT)
        fcntl.lockf(fd, fcntl.LOCK_UN, SLOT, c * SLOT)
        os.close(fd)
    print(
        "  proc %d: %d loops, longest wait %.2fs, mean %.3fs%s"
        % (me, loops, max(waits), sum(waits) / len(waits), ", %d INTRUSIONS" % bad if bad else ""),
        flush=True,
    )
    return 1 if bad else 0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("dir")
    ap.add_argument("--procs", type=int, default=4)
    ap.add_argument("--loops", type=int, default=100)
    ap.add_argument("--counters", type=int, default=1)
    ap.add_argument("--hold", type=float, default=0)
    ap.add_argument("--clients", type=int, default=1)
    ap.add_argument("--tag", default="lockcount")
    a = ap.parse_args()
    client = os.environ.get("KC_CLIENT", "client1")
    first = client == "client1"
    path = os.path.join(a.dir, a.tag + ".cnt")
    if first:
        with open(path, "wb") as f:
            f.write(b"\0" * SLOT * a.counters)
    if a.clients > 1:
        sync("barrier", a.tag + ".start", str(a.clients))
    base = 1000 * int(client[-1])
    t0 = time.time()
    pids = []
    for i in range(a.procs):
        pid = os.fork()
        if pid == 0:
            rc = 2
            try:
                rc = worker(path, base + i, a.loops, a.counters, a.hold)
            except BaseException as e:
                print("  proc %d: %r" % (base + i, e), flush=True)
            os._exit(rc)
        pids.append(pid)
    failed = sum(1 for p in pids if os.waitpid(p, 0)[1])
    dt = time.time() - t0
    if a.clients > 1:
        sync("barrier", a.tag + ".end", str(a.clients), "600")
    fd = os.open(path, os.O_RDWR)
    fcntl.lockf(fd, fcntl.LOCK_SH)  # makes the client drop its cache
    data = os.pread(fd, SLOT * a.counters, 0)
    got = sum(struct.unpack_from("<Q", data, i * SLOT)[0] for i in range(a.counters))
    want = a.procs * a.loops * a.clients
    ok = got == want and not failed
    print(
        "lockcount %s: counter %d, expected %d, %d failed workers, %.1fs, %.0f locks/s here: %s"
        % (client, got, want, failed, dt, a.procs * a.loops / dt, "OK" if ok else "FAILED"),
        flush=True,
    )
    os.close(fd)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
