"""Is everything that is kept about files consistent?  For `dittofs check`, and for tests after each step.

Reads every record, changes nothing.  Problems are sentences for the operator; what can be mended without loss is also
listed as values.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from dittofs.files.cookies import END_OF_PLACES, FIRST_PLACE, place_function
from dittofs.files.records import (
    DIRECTORIES,
    ENTRIES,
    INODES,
    NAME_MAX,
    RECLAIMS,
    ROOT_PARENT,
    SHARES,
    TRUNCATIONS,
    DirectoryState,
    Entry,
    FileType,
    Inode,
    ShareRecord,
)
from dittofs.model.ids import ContentId, FileId, ShareId
from dittofs.stores.api import ContentStore
from dittofs.stores.tables import Table, View

K = TypeVar("K")
R = TypeVar("R")

AT_ONCE = 1_000
LAST_FILE = FileId(2**64 - 1)
LAST_SHARE = b"\xff" * 256


@dataclass(slots=True)
class Report:
    """What was found."""

    problems: list[str] = field(default_factory=list)
    files: int = 0
    directories: int = 0
    shares: int = 0
    orphans: dict[ContentId, str] = field(default_factory=dict)
    """Content that belongs to no file, with the problem that says so: it can be removed."""

    def add(self, other: "Report") -> None:
        """Count in what was found in another store."""
        self.problems += other.problems
        self.files += other.files
        self.directories += other.directories
        self.shares += other.shares
        self.orphans |= other.orphans

    @property
    def summary(self) -> str:
        found = f"{len(self.problems)} problems" if self.problems else "no problems"
        return f"{self.shares} shares, {self.directories} directories, {self.files} other files: {found}"


def check(
    view: View,
    contents: Mapping[ShareId, ContentStore],
    place_functions: Callable[[ShareId], Callable[[bytes], int]] = place_function,
) -> Report:
    """Check all shares of one metadata store, and their content where a store for it is given."""
    checker = _Checker(view, place_functions)
    checker.check_inodes()
    checker.check_entries()
    checker.check_links()
    checker.check_pending()
    for name, record in checker.shares.items():
        store = contents.get(ShareId(record.id))
        if store is not None:
            checker.check_contents(name, ShareId(record.id), store)
    return checker.report


def _every(view: View, table: Table[FileId, R]) -> Iterator[tuple[FileId, R]]:
    start = FileId(0)
    while True:
        found = view.scan(table, start, LAST_FILE, AT_ONCE)
        yield from found
        if len(found) < AT_ONCE:
            return
        start = FileId(found[-1][0] + 1)


class _Checker:
    """One run: what was read so far, and what was found."""

    def __init__(self, view: View, place_functions: Callable[[ShareId], Callable[[bytes], int]]):
        self.report = Report()
        self._view = view
        self.shares: dict[str, ShareRecord] = {}
        self._places: dict[FileId, Callable[[bytes], int]] = {}
        for key, record in view.scan(SHARES, b"", LAST_SHARE, AT_ONCE):
            self.shares[key.decode(errors="replace")] = record
            self._places[record.root] = place_functions(ShareId(record.id))
        self.report.shares = len(self.shares)
        self._inodes: dict[FileId, Inode] = {}
        self._states: dict[FileId, DirectoryState] = {}
        self._roots: dict[FileId, FileId | None] = {root: root for root in self._places}
        self._names: Counter[FileId] = Counter()
        self._entries: Counter[FileId] = Counter()
        self._subdirectories: Counter[FileId] = Counter()

    def _problem(self, text: str) -> None:
        self.report.problems.append(text)

    def check_inodes(self) -> None:
        """Every directory has a state, and nothing else has; every root is a directory."""
        self._inodes = dict(_every(self._view, INODES))
        self._states = dict(_every(self._view, DIRECTORIES))
        for file, inode in self._inodes.items():
            if inode.type is FileType.DIRECTORY:
                self.report.directories += 1
                if file not in self._states:
                    self._problem(f"directory {file} has no state")
            else:
                self.report.files += 1
        for file in self._states:
            if not self._is_directory(file):
                self._problem(f"there is the state of a directory {file}, but no directory")
        for name, record in self.shares.items():
            if not self._is_directory(record.root):
                self._problem(f"the root of share {name}, {record.root}, is not a directory")

    def _is_directory(self, file: FileId) -> bool:
        inode = self._inodes.get(file)
        return inode is not None and inode.type is FileType.DIRECTORY

    def check_entries(self) -> None:
        """Every entry is in a directory, leads to a file, and lies where it is looked for."""
        in_directory: dict[int, Entry] = {}
        current = FileId(0)
        for directory, place, entry in self._every_entry():
            if directory != current:
                self._check_directory(current, in_directory)
                current, in_directory = directory, {}
            in_directory[place] = entry
        self._check_directory(current, in_directory)

    def _every_entry(self) -> Iterator[tuple[FileId, int, Entry]]:
        start = (FileId(0), 0)
        while True:
            found = self._view.scan(ENTRIES, start, (LAST_FILE, END_OF_PLACES), AT_ONCE)
            for (directory, place), entry in found:
                yield directory, place, entry
            if len(found) < AT_ONCE:
                return
            directory, place = found[-1][0]
            start = (directory, place + 1)

    def _check_directory(self, directory: FileId, placed: dict[int, Entry]) -> None:
        if not placed:
            return
        if not self._is_directory(directory):
            self._problem(f"{len(placed)} entries are in {directory}, which is not a directory")
            return
        root = self._root_of(directory)
        place_of = None if root is None else self._places[root]
        displaced: Counter[int] = Counter()
        names: set[bytes] = set()
        for place, entry in placed.items():
            if not entry.file:
                if not entry.displaced or entry.name:
                    self._problem(f"directory {directory} has a free place {place} that is kept for nothing")
                continue
            self._check_entry(directory, entry, names)
            if not FIRST_PLACE <= place < END_OF_PLACES:
                self._problem(f"entry {entry.name!r} of directory {directory} lies at {place}")
            if place_of is not None and place_of(entry.name) != place:
                displaced[place_of(entry.name)] += 1
        for place in displaced.keys() | placed.keys():
            counted = placed[place].displaced if place in placed else 0
            if place_of is not None and counted != displaced[place]:
                self._problem(
                    f"place {place} of directory {directory} counts {counted} displaced entries: there are"
                    f" {displaced[place]}"
                )

    def _check_entry(self, directory: FileId, entry: Entry, names: set[bytes]) -> None:
        name, file = entry.name, entry.file
        self._entries[directory] += 1
        self._names[file] += 1
        if name in names:
            self._problem(f"directory {directory} has two entries {name!r}")
        names.add(name)
        if not 0 < len(name) <= NAME_MAX or b"/" in name or b"\0" in name or name in (b".", b".."):
            self._problem(f"directory {directory} has an entry {name!r}, which is no name")
        if file not in self._inodes:
            self._problem(f"entry {name!r} of directory {directory} leads to {file}, which does not exist")
        elif self._is_directory(file):
            self._subdirectories[directory] += 1
            if self._inodes[file].parent != directory:
                self._problem(
                    f"directory {file} is entered in {directory} as {name!r}, but its parent is"
                    f" {self._inodes[file].parent}"
                )

    def _root_of(self, directory: FileId) -> FileId | None:
        """The root above a directory; None if its parents do not lead to one."""
        path: list[FileId] = []
        seen: set[FileId] = set()
        current = directory
        while current not in self._roots and current not in seen and current in self._inodes:
            path.append(current)
            seen.add(current)
            current = self._inodes[current].parent
        root = self._roots.get(current)
        for passed in path:
            self._roots[passed] = root
        return root

    def check_links(self) -> None:
        """Counts are true, and everything can be reached from a root."""
        for file, inode in self._inodes.items():
            if inode.type is FileType.DIRECTORY:
                self._check_directory_links(file, inode)
            elif not self._names[file]:
                self._problem(f"file {file} has no name")
            elif inode.links != self._names[file]:
                self._problem(f"file {file} has {self._names[file]} names, but counts {inode.links} links")

    def _check_directory_links(self, file: FileId, inode: Inode) -> None:
        expected = 0 if file in self._places else 1
        if self._names[file] != expected:
            self._problem(f"directory {file} has {self._names[file]} names instead of {expected}")
        if file in self._places and inode.parent != ROOT_PARENT:
            self._problem(f"root {file} has a parent, {inode.parent}")
        if self._root_of(file) is None:
            self._problem(f"directory {file} is not below the root of any share")
        state = self._states.get(file)
        if state is None:
            return
        if state.entries != self._entries[file]:
            self._problem(f"directory {file} has {self._entries[file]} entries, but counts {state.entries}")
        if state.links != 2 + self._subdirectories[file]:
            self._problem(
                f"directory {file} has {self._subdirectories[file]} directories in it, but counts {state.links} links"
            )

    def check_pending(self) -> None:
        """What is still to be done belongs to files that are gone (reclaims) or there (truncations)."""
        known = {record.id for record in self.shares.values()}
        for file, reclaim in _every(self._view, RECLAIMS):
            if file in self._inodes:
                self._problem(f"file {file} exists, but its content is to be reclaimed")
            if reclaim.share not in known:
                self._problem(f"content of file {file} is to be reclaimed for a share that does not exist")
        for file, truncation in _every(self._view, TRUNCATIONS):
            inode = self._inodes.get(file)
            if inode is None or inode.type is not FileType.REGULAR:
                self._problem(f"content of {file} is to be cut, but there is no such file")
            elif inode.size > truncation.size:
                self._problem(f"content of {file} is to be cut to {truncation.size}, but its size is {inode.size}")

    def check_contents(self, name: str, share: ShareId, store: ContentStore) -> None:
        """Content without a file is an orphan; a file that takes room must have content."""
        kept = set()
        for content in store.contents(share):
            kept.add(content.file)
            inode = self._inodes.get(content.file)
            if inode is None and self._view.get(RECLAIMS, content.file) is None:
                text = f"share {name} keeps content of file {content.file}, which does not exist"
                self.report.orphans[content] = text
                self._problem(text)
            elif inode is not None and inode.type is not FileType.REGULAR:
                self._problem(f"share {name} keeps content of {content.file}, which is not a regular file")
        root_shares = {record.root: record.id for record in self.shares.values()}
        owners = self._shares_of_files(root_shares)
        for file, inode in self._inodes.items():
            if inode.type is FileType.REGULAR and inode.used and file not in kept and owners.get(file) == share:
                self._problem(f"file {file} of share {name} takes {inode.used} bytes, but has no content")

    def _shares_of_files(self, root_shares: Mapping[FileId, bytes]) -> dict[FileId, bytes]:
        """Which share each file is in.  One is enough: a link does not lead out of its share."""
        shares: dict[FileId, bytes] = defaultdict(bytes)
        for directory, _, entry in self._every_entry():
            root = self._roots.get(directory)
            if root is not None and entry.file:
                shares[entry.file] = root_shares[root]
        return shares
