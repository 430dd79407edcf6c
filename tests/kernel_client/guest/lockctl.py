#!/usr/bin/env python3
"""Hold or try one lock; used by host-driven scenarios.

lockctl.py hold FILE TAG [--type W|R] [--start N] [--len N] [--nowait]
    take the lock, set flag TAG.held (value: seconds waited), keep it until
    flag TAG.release appears, release it, set TAG.released.
lockctl.py try FILE [...]      exit 0 granted (and undone), 1 refused
"""

import argparse
import fcntl
import os
import sys
import time

D = os.path.join(os.environ.get("KC_SCRATCH", "/kc/scratch"), "sync")


def flag(name, value=""):
    os.makedirs(D, exist_ok=True)
    t = os.path.join(D, ".%s.%d" % (name, os.getpid()))
    with open(t, "w") as f:
        f.write("%s\n" % value)
    os.rename(t, os.path.join(D, name))


ap = argparse.ArgumentParser()
ap.add_argument("op", choices=("hold", "try"))
ap.add_argument("file")
ap.add_argument("tag", nargs="?", default="lock")
ap.add_argument("--type", default="W")
ap.add_argument("--start", type=int, default=0)
ap.add_argument("--len", type=int, default=0)
ap.add_argument("--nowait", action="store_true")
a = ap.parse_args()
fd = os.open(a.file, os.O_RDWR | os.O_CREAT, 0o666)
mode = fcntl.LOCK_EX if a.type == "W" else fcntl.LOCK_SH
if a.op == "try":
    try:
        fcntl.lockf(fd, mode | fcntl.LOCK_NB, a.len, a.start)
    except OSError as e:
        print("refused: %s" % e.strerror, flush=True)
        sys.exit(1)
    print("granted", flush=True)
    sys.exit(0)
flag(a.tag + ".waiting")
t = time.time()
fcntl.lockf(fd, mode | (fcntl.LOCK_NB if a.nowait else 0), a.len, a.start)
flag(a.tag + ".held", "%.3f" % (time.time() - t))
while not os.path.exists(os.path.join(D, a.tag + ".release")):
    time.sleep(0.05)
fcntl.lockf(fd, fcntl.LOCK_UN, a.len, a.start)
flag(a.tag + ".released", "%.3f" % time.time())
