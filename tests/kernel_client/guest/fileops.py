#!/usr/bin/env python3
"""File operation smoke test of a mounted file system.

  fileops.py DIR [--entries 5000] [--big-mb 64] [--other DIR2] [--skip a,b]

--other: the same directory through another mount (for instance made with
nosharecache), used to see that changes really reached the server.
Prints one line per check; exit status 1 if any failed.
"""

import argparse
import errno
import hashlib
import mmap
import os
import shutil
import stat
import sys
import time

FAILED = []
SKIPPED = []


def check(name, cond, info=None):
    print(
        "%s  %s%s" % ("ok  " if cond else "FAIL", name, "" if cond or info is None else "  [%s]" % (info,)), flush=True
    )
    if not cond:
        FAILED.append(name)


def err(fn, *a, **k):
    try:
        fn(*a, **k)
        return None
    except OSError as e:
        return errno.errorcode.get(e.errno, e.errno)


def put(path, data=b""):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def get(path):
    with open(path, "rb") as f:
        return f.read()


class T:
    def __init__(self, d, other, a):
        self.d, self.other, self.a = d, other, a

    def p(self, *n):
        return os.path.join(self.d, *n)

    def o(self, *n):
        return os.path.join(self.other, *n)

    # ---- each method is one group of checks
    def create(self):
        put(self.p("f"), b"hello")
        check("create and read back", get(self.p("f")) == b"hello")
        check("other view sees it", get(self.o("f")) == b"hello")
        st = os.stat(self.p("f"))
        check("regular file, one link, size", stat.S_ISREG(st.st_mode) and st.st_nlink == 1 and st.st_size == 5, st)
        put(self.p("f"), b"")
        check("O_TRUNC empties", os.stat(self.p("f")).st_size == 0 and get(self.o("f")) == b"")
        check("open of a missing file: ENOENT", err(os.open, self.p("nope"), os.O_RDONLY) == "ENOENT")
        check("lookup below a file: ENOTDIR", err(os.stat, self.p("f", "x")) == "ENOTDIR")
        check("name of 255 bytes", err(put, self.p("n" * 255)) is None)
        check("name of 256 bytes: ENAMETOOLONG", err(put, self.p("n" * 256)) == "ENAMETOOLONG")
        for n in ("sp ace", "ünïcödé-名前", "a'b\"c;d&e", ".hidden", "-dash"):
            put(self.p(n), n.encode())
        names = set(os.listdir(self.d))
        check(
            "odd names come back from readdir",
            {"sp ace", "ünïcödé-名前", "a'b\"c;d&e", ".hidden", "-dash"} <= names,
            sorted(names),
        )

    def excl(self):
        f = self.p("excl")
        fd = os.open(f, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        os.close(fd)
        check("O_EXCL creates", os.path.exists(f))
        if not self.a.no_modes:
            check("O_EXCL: mode 600", stat.S_IMODE(os.stat(f).st_mode) == 0o600, oct(os.stat(f).st_mode))
        check("O_EXCL again: EEXIST", err(os.open, f, os.O_CREAT | os.O_EXCL | os.O_RDWR) == "EEXIST")
        n = 8
        pids = []
        for i in range(n):
            pid = os.fork()
            if pid == 0:
                try:
                    fd = os.open(self.p("race"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
                    os._exit(0)
                except FileExistsError:
                    os._exit(1)
                except BaseException:
                    os._exit(2)
            pids.append(pid)
        rcs = [os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in pids]
        check("O_EXCL race has one winner", sorted(rcs) == [0] + [1] * (n - 1), rcs)

    def append(self):
        f = self.p("app")
        fd = os.open(f, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        for i in range(100):
            os.write(fd, b"%09d\n" % i)
        os.close(fd)
        check("O_APPEND by one writer", get(f) == b"".join(b"%09d\n" % i for i in range(100)))
        fd = os.open(f, os.O_APPEND | os.O_WRONLY)
        os.lseek(fd, 0, 0)
        os.write(fd, b"END")
        os.close(fd)
        check("O_APPEND ignores the offset", get(self.o("app")).endswith(b"END"))

    def rename(self):
        put(self.p("r1"), b"one")
        put(self.p("r2"), b"two")
        ino = os.stat(self.p("r1")).st_ino
        os.rename(self.p("r1"), self.p("r2"))
        check("rename replaces the target", get(self.o("r2")) == b"one" and not os.path.exists(self.p("r1")))
        check("rename keeps the inode number", os.stat(self.p("r2")).st_ino == ino)
        os.mkdir(self.p("rd"))
        os.rename(self.p("r2"), self.p("rd", "r3"))
        check("rename into another directory", get(self.o("rd", "r3")) == b"one")
        os.mkdir(self.p("rd2"))
        os.rename(self.p("rd"), self.p("rd2", "sub"))
        check("rename of a directory", get(self.p("rd2", "sub", "r3")) == b"one")
        check("directory into itself: EINVAL", err(os.rename, self.p("rd2"), self.p("rd2", "sub", "x")) == "EINVAL")
        put(self.p("rf"))
        check("file over directory: EISDIR", err(os.rename, self.p("rf"), self.p("rd2")) in ("EISDIR", "EEXIST"))
        check("directory over file: ENOTDIR", err(os.rename, self.p("rd2"), self.p("rf")) in ("ENOTDIR", "EEXIST"))
        os.mkdir(self.p("rd3"))
        os.rename(self.p("rd3"), self.p("rd4"))
        os.mkdir(self.p("rd5"))
        check("directory over empty directory", err(os.rename, self.p("rd4"), self.p("rd5")) is None)
        os.mkdir(self.p("rd6"))
        check(
            "directory over non-empty: ENOTEMPTY",
            err(os.rename, self.p("rd6"), self.p("rd2")) in ("ENOTEMPTY", "EEXIST"),
        )
        check("rename of a missing file: ENOENT", err(os.rename, self.p("nope"), self.p("x")) == "ENOENT")
        put(self.p("same"), b"s")
        os.rename(self.p("same"), self.p("same"))
        check("rename onto itself", get(self.p("same")) == b"s")
        fd = os.open(self.p("same"), os.O_RDONLY)
        put(self.p("other"), b"new")
        os.rename(self.p("other"), self.p("same"))
        check("open file survives being replaced", os.read(fd, 10) == b"s" and get(self.p("same")) == b"new")
        os.close(fd)

    def link(self):
        put(self.p("l1"), b"x")
        os.link(self.p("l1"), self.p("l2"))
        a, b = os.stat(self.p("l1")), os.stat(self.p("l2"))
        check("hard link: same inode, two links", a.st_ino == b.st_ino and b.st_nlink == 2, (a, b))
        os.unlink(self.p("l1"))
        check("link count drops", os.stat(self.o("l2")).st_nlink == 1 and get(self.p("l2")) == b"x")
        check("link onto an existing name: EEXIST", err(os.link, self.p("l2"), self.p("l2")) == "EEXIST")
        os.mkdir(self.p("ldir"))
        check("link to a directory: EPERM", err(os.link, self.p("ldir"), self.p("ldir2")) == "EPERM")

    def symlink(self):
        os.symlink("target/with spaces", self.p("s1"))
        check("readlink", os.readlink(self.o("s1")) == "target/with spaces")
        st = os.lstat(self.p("s1"))
        check("lstat of a symlink", stat.S_ISLNK(st.st_mode) and st.st_size == 18, st)
        put(self.p("sf"), b"via")
        os.symlink("sf", self.p("s2"))
        check("follow a symlink", get(self.p("s2")) == b"via")
        os.symlink("s3", self.p("s3"))
        check("symlink loop: ELOOP", err(os.open, self.p("s3"), os.O_RDONLY) == "ELOOP")
        long = "x" * 1000
        os.symlink(long, self.p("s4"))
        check("symlink of 1000 bytes", os.readlink(self.p("s4")) == long)
        os.unlink(self.p("s2"))
        check("unlink of a symlink keeps the target", get(self.p("sf")) == b"via")

    def unlink(self):
        put(self.p("u"), b"still here")
        fd = os.open(self.p("u"), os.O_RDWR)
        os.unlink(self.p("u"))
        check("unlinked name is gone", err(os.stat, self.p("u")) == "ENOENT")
        os.write(fd, b"STILL")
        os.lseek(fd, 0, 0)
        check("unlinked open file stays usable", os.read(fd, 20) == b"STILL here")
        os.close(fd)
        time.sleep(0.2)
        left = [n for n in os.listdir(self.d) if n.startswith(".nfs")]
        check("no .nfs file left after close", not left, left)
        check(
            "unlink of a directory: EISDIR",
            err(os.unlink, self.p("ldir") if os.path.isdir(self.p("ldir")) else self.d) in ("EISDIR", "EPERM"),
        )
        check("unlink of a missing file: ENOENT", err(os.unlink, self.p("nope")) == "ENOENT")

    def dirs(self):
        os.mkdir(self.p("d"), 0o755)
        check("mkdir again: EEXIST", err(os.mkdir, self.p("d")) == "EEXIST")
        put(self.p("d", "f"))
        check("rmdir of a non-empty directory: ENOTEMPTY", err(os.rmdir, self.p("d")) in ("ENOTEMPTY", "EEXIST"))
        os.unlink(self.p("d", "f"))
        os.rmdir(self.p("d"))
        check("rmdir", not os.path.exists(self.o("d")))
        check("rmdir of a file: ENOTDIR", err(os.rmdir, self.p("f")) == "ENOTDIR")
        n = os.stat(self.d).st_nlink
        os.mkdir(self.p("dd"))
        print("      directory link count %d -> %d" % (n, os.stat(self.d).st_nlink), flush=True)
        deep = self.p(*["deep%d" % i for i in range(30)])
        os.makedirs(deep)
        put(os.path.join(deep, "f"), b"deep")
        check("30 levels deep", get(os.path.join(deep, "f")) == b"deep")

    def truncate(self):
        f = self.p("t")
        put(f, b"0123456789")
        os.truncate(f, 4)
        check("truncate shrinks", get(self.o("t")) == b"0123")
        os.truncate(f, 8)
        check("truncate grows with zeros", get(f) == b"0123\0\0\0\0")
        fd = os.open(f, os.O_RDWR)
        os.ftruncate(fd, 2)
        os.pwrite(fd, b"Z", 5)
        os.close(fd)
        check("write beyond the end after ftruncate", get(self.o("t")) == b"01\0\0\0Z", get(f))
        os.truncate(f, 5 * 2**30)
        check("size of 5 GiB", os.stat(self.o("t")).st_size == 5 * 2**30)
        fd = os.open(f, os.O_RDWR)
        os.pwrite(fd, b"far", 5 * 2**30 - 3)
        os.fsync(fd)
        check("write and read beyond 4 GiB", os.pread(fd, 10, 5 * 2**30 - 4) == b"\0far")
        os.close(fd)
        os.truncate(f, 0)
        check("truncate to nothing", os.stat(f).st_size == 0)

    def holes(self):
        f = self.p("hole")
        fd = os.open(f, os.O_CREAT | os.O_RDWR)
        os.pwrite(fd, b"A", 0)
        os.pwrite(fd, b"B", 10 * 2**20)
        os.fsync(fd)
        st = os.fstat(fd)
        check("hole: size", st.st_size == 10 * 2**20 + 1)
        check("hole: reads as zeros", os.pread(fd, 2**20, 5 * 2**20) == b"\0" * 2**20)
        print("      blocks used: %d KiB of %d" % (st.st_blocks // 2, st.st_size // 1024), flush=True)
        os.close(fd)

    def attrs(self):
        f = self.p("at")
        put(f, b"x")
        for m in (0o000, 0o644, 0o777, 0o4755, 0o1644):
            os.chmod(f, m)
            got = stat.S_IMODE(os.stat(self.o("at")).st_mode)
            check("chmod %04o" % m, got == m, oct(got))
        os.chmod(f, 0o644)
        a, m = 1000000000_123456789, 1234567890_987654321
        os.utime(f, ns=(a, m))
        st = os.stat(self.o("at"))
        check("utimes: seconds", st.st_mtime_ns // 10**9 == m // 10**9 and st.st_atime_ns // 10**9 == a // 10**9, st)
        check("utimes: at least 100 ns resolution", st.st_mtime_ns // 100 == m // 100, st.st_mtime_ns)
        check("utimes: nanoseconds", st.st_mtime_ns == m and st.st_atime_ns == a, (st.st_atime_ns, st.st_mtime_ns))
        os.utime(f)
        check("utimes: now", abs(os.stat(f).st_mtime - time.time()) < 120)
        b = os.stat(f)
        time.sleep(1.1)
        put(f, b"changed")
        c = os.stat(f)
        check("write moves mtime and ctime", c.st_mtime_ns > b.st_mtime_ns and c.st_ctime_ns > b.st_ctime_ns)
        time.sleep(1.1)
        os.chmod(f, 0o600)
        d = os.stat(f)
        check("chmod moves ctime only", d.st_ctime_ns > c.st_ctime_ns and d.st_mtime_ns == c.st_mtime_ns)
        dm = os.stat(self.d).st_mtime_ns
        time.sleep(1.1)
        put(self.p("newentry"))
        check(
            "a new entry moves the directory's mtime",
            os.stat(self.o()).st_mtime_ns > dm or os.stat(self.d).st_mtime_ns > dm,
        )
        old = os.umask(0o027)
        fd = os.open(self.p("um"), os.O_CREAT | os.O_WRONLY, 0o666)
        os.close(fd)
        os.umask(old)
        check("umask applies", stat.S_IMODE(os.stat(self.p("um")).st_mode) == 0o640)
        v = os.statvfs(self.d)
        check("statfs is plausible", v.f_blocks > 0 and v.f_bsize > 0 and v.f_namemax >= 255, v)

    def owner(self):
        f = self.p("ow")
        put(f)
        os.chown(f, 1234, 5678)
        st = os.stat(self.o("ow"))
        check("chown as root", (st.st_uid, st.st_gid) == (1234, 5678), st)
        os.chmod(f, 0o600)
        pid = os.fork()
        if pid == 0:
            os.setgroups([])
            os.setgid(4321)
            os.setuid(4321)
            r = [
                err(os.open, f, os.O_RDONLY) == "EACCES",
                err(os.chmod, f, 0o644) == "EPERM",
                err(os.chown, f, 4321, 4321) == "EPERM",
            ]
            os._exit(0 if all(r) else 1)
        check("another user: EACCES, EPERM", os.waitpid(pid, 0)[1] == 0)
        os.chmod(self.d, 0o777)
        pid = os.fork()
        if pid == 0:
            os.setgroups([])
            os.setgid(4321)
            os.setuid(4321)
            put(self.p("mine"), b"m")
            st = os.stat(self.p("mine"))
            os._exit(0 if (st.st_uid, st.st_gid) == (4321, 4321) else 1)
        check("files belong to their creator", os.waitpid(pid, 0)[1] == 0)
        f = self.p("gr")
        put(f, b"g")
        os.chown(f, 0, 7777)
        os.chmod(f, 0o640)
        pid = os.fork()
        if pid == 0:
            os.setgroups([100, 200, 7777])
            os.setgid(4321)
            os.setuid(4321)
            os._exit(0 if err(os.open, f, os.O_RDONLY) is None else 1)
        check("supplementary groups count", os.waitpid(pid, 0)[1] == 0)

    def special(self):
        e = err(os.mkfifo, self.p("fifo"))
        check("mkfifo", e is None and stat.S_ISFIFO(os.stat(self.o("fifo")).st_mode), e)
        e = err(os.mknod, self.p("chr"), stat.S_IFCHR | 0o600, os.makedev(1, 3))
        st = os.stat(self.p("chr")) if e is None else None
        check(
            "mknod of a character device",
            e is None and stat.S_ISCHR(st.st_mode) and st.st_rdev == os.makedev(1, 3),
            e or st,
        )
        import socket

        s = socket.socket(socket.AF_UNIX)
        cwd = os.getcwd()
        os.chdir(self.d)
        e = err(s.bind, "sock")
        os.chdir(cwd)
        check("bind of a unix socket", e is None and stat.S_ISSOCK(os.stat(self.o("sock")).st_mode), e)

    def big(self):
        f = self.p("big")
        n = self.a.big_mb
        h = hashlib.sha256()
        t = time.time()
        fd = os.open(f, os.O_CREAT | os.O_WRONLY)
        for i in range(n):
            block = hashlib.sha256(b"%d" % i).digest() * (2**20 // 32)
            h.update(block)
            os.write(fd, block)
        os.fsync(fd)
        os.close(fd)
        tw = time.time() - t
        drop = err(put, "/proc/sys/vm/drop_caches", b"3")
        t = time.time()
        g = hashlib.sha256()
        with open(self.o("big"), "rb", buffering=0) as r:
            while True:
                b = r.read(2**20)
                if not b:
                    break
                g.update(b)
        tr = time.time() - t
        check("large file: checksum of %d MiB" % n, h.digest() == g.digest())
        print("      write %.1f MiB/s, read %.1f MiB/s%s" % (n / tw, n / tr, " (cached)" if drop else ""), flush=True)
        fd = os.open(f, os.O_RDWR)
        edits = [(i * 7919) % (n * 2**20 - 8) for i in range(200)]
        for e in edits:
            os.pwrite(fd, b"\xa5" * 7, e)
        os.fsync(fd)
        os.close(fd)
        err(put, "/proc/sys/vm/drop_caches", b"3")
        fd = os.open(self.o("big"), os.O_RDONLY)
        check("200 scattered small overwrites", all(os.pread(fd, 7, e) == b"\xa5" * 7 for e in edits))
        os.close(fd)
        os.unlink(f)

    def mmapped(self):
        f = self.p("mm")
        fd = os.open(f, os.O_CREAT | os.O_RDWR)
        os.ftruncate(fd, 100000)
        m = mmap.mmap(fd, 100000)
        m[0:5] = b"START"
        m[50000:50006] = b"MIDDLE"
        m[99997:100000] = b"END"
        m.flush()
        m.close()
        os.close(fd)
        d = get(self.o("mm"))
        check("mmap write", len(d) == 100000 and d[:5] == b"START" and d[50000:50006] == b"MIDDLE" and d[-3:] == b"END")
        fd = os.open(f, os.O_RDONLY)
        m = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        check("mmap read", m[:5] == b"START" and m[50000:50006] == b"MIDDLE")
        m.close()
        os.close(fd)
        exe = self.p("true")
        shutil.copy("/bin/true", exe)
        os.chmod(exe, 0o755)
        check("execute a file", os.spawnl(os.P_WAIT, exe, "true") == 0)

    def readdir(self):
        n = self.a.entries
        os.mkdir(self.p("many"))
        t = time.time()
        for i in range(n):
            os.close(os.open(self.p("many", "entry-%06d" % i), os.O_CREAT | os.O_WRONLY, 0o644))
        tc = time.time() - t
        err(put, "/proc/sys/vm/drop_caches", b"3")
        t = time.time()
        names = os.listdir(self.o("many"))
        tl = time.time() - t
        check(
            "readdir of %d entries: complete, no duplicates" % n,
            len(names) == n and set(names) == {"entry-%06d" % i for i in range(n)},
            len(names),
        )
        t = time.time()
        for e in os.scandir(self.o("many")):
            e.stat()
        ts = time.time() - t
        print("      create %.0f/s, list %.2fs, list+stat %.2fs" % (n / tc, tl, ts), flush=True)
        # delete while listing
        t = time.time()
        seen = 0
        with os.scandir(self.p("many")) as it:
            for e in it:
                os.unlink(e.path)
                seen += 1
        rest = os.listdir(self.p("many"))
        check("unlink while listing sees every entry", seen == n and not rest, (seen, len(rest)))
        print("      unlink %.0f/s" % (n / (time.time() - t)), flush=True)
        os.rmdir(self.p("many"))
        check("the emptied directory can be removed", not os.path.exists(self.p("many")))


GROUPS = (
    "create excl append rename link symlink unlink dirs truncate holes attrs owner special big mmapped readdir".split()
)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("dir")
    ap.add_argument("--other")
    ap.add_argument("--entries", type=int, default=5000)
    ap.add_argument("--big-mb", type=int, default=64)
    ap.add_argument("--skip", default="", help="comma separated groups: " + " ".join(GROUPS))
    ap.add_argument("--only", default="")
    ap.add_argument("--no-modes", action="store_true", help="no UNIX permission bits (CIFS)")
    a = ap.parse_args()
    name = "fileops-%s-%d" % (os.environ.get("KC_CLIENT", "x"), os.getpid())
    d = os.path.join(a.dir, name)
    os.mkdir(d)
    t = T(d, os.path.join(a.other or a.dir, name), a)
    t0 = time.time()
    for g in GROUPS:
        if g in a.skip.split(",") or (a.only and g not in a.only.split(",")):
            continue
        print("-- " + g, flush=True)
        try:
            getattr(t, g)()
        except Exception as e:
            import traceback

            traceback.print_exc(file=sys.stdout)
            check("group %s ran to its end" % g, False, e)
    t.d and shutil.rmtree(d, ignore_errors=True)
    check("everything can be removed", not os.path.exists(d), os.listdir(d) if os.path.exists(d) else "")
    print("fileops: %d failed, %.1fs" % (len(FAILED), time.time() - t0), flush=True)
    for f in FAILED:
        print("  failed: " + f, flush=True)
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
