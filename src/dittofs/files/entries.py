"""The names in one directory: finding, adding, taking out, listing.

An entry lies at the place its name hashes to, its home, and if that is taken at the next free place; it never moves,
because its place is the cookie that clients hold.  The record at a home counts the entries that had to go elsewhere
(`displaced`), so that looking for a name that is not there ends at once where nothing was displaced.
"""

from typing import Final

from dittofs.files.cookies import END_OF_PLACES, FIRST_PLACE
from dittofs.files.records import ENTRIES, Entry
from dittofs.files.tree import Tree
from dittofs.files.values import Sought
from dittofs.model.ids import FileId
from dittofs.stores.tables import View

NO_FILE: Final = FileId(0)
_SCANNED_AT_ONCE: Final = 64


def seek(view: View, tree: Tree, directory: FileId, name: bytes) -> Sought:
    """Look for a name."""
    home = tree.place_of(name)
    entry = view.get(ENTRIES, (directory, home))
    if entry is None:
        return Sought(name, home, None, home, None)
    if entry.name == name and entry.file:
        return Sought(name, home, entry, home, entry)
    if entry.displaced:
        return _seek_displaced(view, tree, directory, name, home, entry)
    return Sought(name, home, entry, home, None)


def _seek_displaced(view: View, tree: Tree, directory: FileId, name: bytes, home: int, at_home: Entry) -> Sought:
    """Look through the places behind a home, and on from the first one, until all it has displaced were seen."""
    remaining = at_home.displaced
    for start, end in ((home + 1, END_OF_PLACES), (FIRST_PLACE, home)):
        while start < end and remaining:
            found = view.scan(ENTRIES, (directory, start), (directory, end), _SCANNED_AT_ONCE)
            for (_, place), entry in found:
                if entry.file and tree.place_of(entry.name) == home:
                    if entry.name == name:
                        return Sought(name, home, at_home, place, entry)
                    remaining -= 1
            start = found[-1][0][1] + 1 if len(found) == _SCANNED_AT_ONCE else end
    return Sought(name, home, at_home, home, None)


def add(view: View, directory: FileId, sought: Sought, file: FileId) -> None:
    """Enter a name that was not found."""
    name, home, at_home = sought.name, sought.home, sought.at_home
    if at_home is None:
        view.put(ENTRIES, (directory, home), Entry(name, file))
        return
    place = home
    occupant: Entry | None = at_home
    while occupant is not None and occupant.file:
        place = place + 1 if place + 1 < END_OF_PLACES else FIRST_PLACE
        assert place != home, "a directory does not fill 2**63 places"
        occupant = view.get(ENTRIES, (directory, place))
    view.put(ENTRIES, (directory, place), Entry(name, file, 0 if occupant is None else occupant.displaced))
    if place != home:
        view.put(ENTRIES, (directory, home), Entry(at_home.name, at_home.file, at_home.displaced + 1))


def take_out(view: View, directory: FileId, sought: Sought) -> None:
    """Remove an entry that was found.  What it displaced stays where it is."""
    home, at_home, place, entry = sought.home, sought.at_home, sought.place, sought.entry
    assert entry is not None, "what is taken out was found"
    assert at_home is not None, "what was found has a record at its home"
    if entry.displaced:
        view.put(ENTRIES, (directory, place), Entry(b"", NO_FILE, entry.displaced))
    else:
        view.delete(ENTRIES, (directory, place))
    if home == place:
        return
    if at_home.file or at_home.displaced > 1:
        view.put(ENTRIES, (directory, home), Entry(at_home.name, at_home.file, at_home.displaced - 1))
    else:
        view.delete(ENTRIES, (directory, home))


def point(view: View, directory: FileId, sought: Sought, file: FileId) -> None:
    """Let an entry that was found lead to another file; the name keeps its place."""
    entry = sought.entry
    assert entry is not None, "what is replaced was found"
    view.put(ENTRIES, (directory, sought.place), Entry(entry.name, file, entry.displaced))


def list_after(view: View, directory: FileId, place: int, limit: int) -> tuple[list[tuple[int, Entry]], bool]:
    """Up to `limit` entries behind a place, in the order of their places, and whether none follow."""
    found: list[tuple[int, Entry]] = []
    start = max(place + 1, FIRST_PLACE)
    while True:
        wanted = limit - len(found)
        records = view.scan(ENTRIES, (directory, start), (directory, END_OF_PLACES), wanted + 1)
        found += [(key[1], entry) for key, entry in records[:wanted] if entry.file]
        if len(records) <= wanted:
            return found, True
        if len(found) == limit:
            return found, False
        start = records[wanted - 1][0][1] + 1
