#!/usr/bin/env python3
"""Random writes, truncates, reads and mappings of one file, compared with a model in memory after each step.

  fsx.py FILE [--operations 2000] [--size 300000] [--seed N] [--other FILE]

--other: the same file through another mount: looked at whenever the file was closed, so that the bytes compared are
the server's and not those of the page cache.  Prints the seed; on the first difference, the last steps and where.
"""

import argparse
import mmap
import os
import random
import sys
from collections import deque


class Difference(Exception):
    """The file is not what it should be."""


class Exerciser:
    """One file, its model, and a random walk over both."""

    def __init__(self, path, other, size, seed):
        self.path, self.other, self.max_size = path, other, size
        self.random = random.Random(seed)
        self.model = bytearray()
        self.trace = deque(maxlen=25)
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)

    def span(self, limit):
        """A range below limit, often small, often at a page boundary, where off-by-one errors live."""
        start = self.random.randrange(limit)
        if self.random.random() < 0.3:
            start -= start % 4096
        length = self.random.choice((1, 17, 4096, 4097, 32768, 70000))
        return start, min(self.random.randint(1, length), limit - start)

    def put(self, start, data):
        if start > len(self.model):
            self.model.extend(bytes(start - len(self.model)))
        self.model[start : start + len(data)] = data

    def write(self):
        start, length = self.span(self.max_size)
        self.trace.append(f"write {start}+{length}")
        data = self.random.randbytes(length)
        assert os.pwrite(self.fd, data, start) == length
        self.put(start, data)

    def append(self):
        length = min(self.random.randint(1, 5000), self.max_size - len(self.model))
        self.trace.append(f"append {length} at {len(self.model)}")
        data = self.random.randbytes(length)
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)
        self.put(len(self.model), data)

    def truncate(self):
        size = self.random.randrange(self.max_size + 1)
        self.trace.append(f"truncate {len(self.model)} to {size}")
        os.ftruncate(self.fd, size)
        if size < len(self.model):
            del self.model[size:]
        else:
            self.model.extend(bytes(size - len(self.model)))

    def read(self):
        start, length = self.span(self.max_size)
        self.trace.append(f"read {start}+{length}")
        self.compare(os.pread(self.fd, length, start), start, length)

    def map_read(self):
        if self.model:
            start, length = self.span(len(self.model))
            self.trace.append(f"map and read {start}+{length}")
            with mmap.mmap(self.fd, len(self.model), prot=mmap.PROT_READ) as mapped:
                self.compare(mapped[start : start + length], start, length)

    def map_write(self):
        if self.model:
            start, length = self.span(len(self.model))
            self.trace.append(f"map and write {start}+{length}")
            data = self.random.randbytes(length)
            with mmap.mmap(self.fd, len(self.model)) as mapped:
                mapped[start : start + length] = data
                mapped.flush()
            self.put(start, data)

    def sync(self):
        self.trace.append("fsync")
        os.fsync(self.fd)

    def reopen(self):
        """Close, look from elsewhere, and go on with an empty page cache."""
        self.trace.append("close, compare all, open")
        os.fsync(self.fd)
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(self.fd)
        for path in {self.path, self.other}:
            with open(path, "rb") as file:
                self.compare(file.read(), 0, self.max_size + 1)
        self.fd = os.open(self.path, os.O_RDWR)

    def compare(self, data, start, length):
        expected = self.model[start : start + length]
        size = os.stat(self.path).st_size
        if size != len(self.model):
            raise Difference(f"the size is {size}, must be {len(self.model)}")
        if data != expected:
            at = next((i for i, (a, b) in enumerate(zip(data, expected)) if a != b), min(len(data), len(expected)))
            got, want = data[at : at + 8].hex(), expected[at : at + 8].hex()
            raise Difference(f"at {start + at}: {got or 'end'}, must be {want or 'end'} ({len(data)} bytes read)")

    def run(self, operations):
        steps = (
            self.write,
            self.read,
            self.truncate,
            self.append,
            self.map_read,
            self.map_write,
            self.sync,
            self.reopen,
        )
        weights = (30, 25, 10, 8, 8, 8, 3, 4)
        for step in self.random.choices(steps, weights, k=operations):
            step()
        self.reopen()
        os.close(self.fd)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--operations", type=int, default=2000)
    parser.add_argument("--size", type=int, default=300000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--other")
    args = parser.parse_args()
    print(f"fsx: --seed {args.seed} --operations {args.operations}", flush=True)
    exerciser = Exerciser(args.file, args.other or args.file, args.size, args.seed)
    try:
        exerciser.run(args.operations)
    except Difference as difference:
        print("fsx: FAIL", difference, "after:", *exerciser.trace, sep="\n  ")
        return 1
    print("fsx: all good")
    return 0


if __name__ == "__main__":
    sys.exit(main())
