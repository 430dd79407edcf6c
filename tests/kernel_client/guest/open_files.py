#!/usr/bin/env python3
"""Files that are removed or replaced while they are open stay readable, and leave nothing behind.

open_files.py DIR OTHER
"""

import os
import sys

directory, other = sys.argv[1:3]
os.chdir(directory)


def put(name, data):
    with open(name, "wb") as file:
        file.write(data)


put("removed", b"still here")
removed = os.open("removed", os.O_RDWR)
os.unlink("removed")
assert os.pread(removed, 99, 0) == b"still here"
assert os.pwrite(removed, b"S", 0) == 1
assert os.pread(removed, 99, 0) == b"Still here"

put("target", b"old")
replaced = os.open("target", os.O_RDONLY)
put("fresh", b"new")
os.rename("fresh", "target")
assert os.pread(replaced, 99, 0) == b"old"
with open("target", "rb") as file:
    assert file.read() == b"new"

os.close(removed)
os.close(replaced)
left = os.listdir(other)
assert left == ["target"], left
print("open_files: all good")
