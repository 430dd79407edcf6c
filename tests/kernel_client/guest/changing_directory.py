#!/usr/bin/env python3
"""List a directory while entries come and go: each file that stays is listed exactly once.

changing_directory.py DIR OTHER [ENTRIES]
"""

import os
import sys

directory, other = sys.argv[1:3]
entries = int(sys.argv[3]) if len(sys.argv) > 3 else 1500


def make(name):
    os.close(os.open(os.path.join(directory, name), os.O_CREAT | os.O_EXCL | os.O_WRONLY))


for number in range(entries):
    make(f"stays-{number}")
seen = []
with os.scandir(other) as listing:
    for number, entry in enumerate(listing):
        seen.append(entry.name)
        if number % 50 == 0:
            make(f"passes-{number}")
            if number >= 500:
                os.unlink(os.path.join(directory, f"passes-{number - 500}"))
stayed = [name for name in seen if name.startswith("stays-")]
assert len(seen) == len(set(seen)), "a name was listed twice"
assert len(stayed) == entries, f"{len(stayed)} of {entries} files were listed"
assert set(os.listdir(other)) == set(os.listdir(directory))
for name in os.listdir(directory):
    os.unlink(os.path.join(directory, name))
assert os.listdir(other) == []
print("changing_directory: all good")
