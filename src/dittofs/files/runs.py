"""A directory in runs: stretches of neighbouring entries, read together and recognised when they come again.

Names are placed by a hash, so a stretch of places holds its share of the entries, and cutting the range of places in
equal parts cuts the directory in about equal ones.  Where one run ends and the next begins does not depend on what is
asked for, and a change of an entry touches one run only.

Whoever makes something of a run (an answer's bytes) keeps the run with it: reading it again gives the very same object
as long as every record that it tells of is as it was.
"""

from collections.abc import Sequence

from dittofs.files.cookies import END_OF_PLACES
from dittofs.files.records import DIRECTORIES, ENTRIES, INODES, UNSTABLE, DirectoryState, Entry, FileType, Inode
from dittofs.files.values import File
from dittofs.model.ids import FileId
from dittofs.stores.tables import View

Row = tuple[tuple[FileId, int], Entry]

RUN_ENTRIES = 256
"""Runs are made at half to all of this size, and cut anew when they are a quarter or twice."""

LONGEST_RUN = 1024
SHORT_RUN = 128
"""Somebody may have chosen names that lie next to each other.  Where a run would be longer than the one, none is kept,
and no more entries are read than the other says."""

_REGULAR = FileType.REGULAR
_DIRECTORY = FileType.DIRECTORY


class Run:
    """The entries up to before the place `end`, and the files they lead to, as records."""

    __slots__ = (
        "_inodes",
        "_shadows",
        "_states",
        "_subdirectories",
        "end",
        "entries",
        "ids",
        "is_whole",
        "rows",
        "state",
    )

    def __init__(self, rows: Sequence[Row], end: int, *, is_whole: bool, state: DirectoryState | None):
        self.rows = rows
        self.state = state
        """The directory's, when the rows were read; None if it does not vouch for them."""
        self.end = end
        self.is_whole = is_whole
        self.entries: list[Row] = [row for row in rows if row[1].file]
        self.ids: list[FileId] = [row[1].file for row in self.entries]
        self._inodes: list[Inode | None] = []
        self._shadows: list[Inode | None] = []
        self._subdirectories: list[FileId] = []
        self._states: list[DirectoryState | None] = []

    def load_files(self, view: View) -> None:
        """Look at the files too."""
        self._inodes = view.get_all(INODES, self.ids)
        self._shadows = view.get_all(UNSTABLE, self.ids)
        self._subdirectories = [
            id_
            for id_, inode in zip(self.ids, self._inodes, strict=True)
            if inode is not None and inode.type is _DIRECTORY
        ]
        self._states = view.get_all(DIRECTORIES, self._subdirectories)

    def has_same_files(self, view: View) -> bool:
        """Whether `load_files` would find what it has found.  Lists of the very same records are compared quickly."""
        return (
            view.get_all(INODES, self.ids) == self._inodes
            and view.get_all(UNSTABLE, self.ids) == self._shadows
            and view.get_all(DIRECTORIES, self._subdirectories) == self._states
        )

    def files(self) -> list[File | None]:
        """The file of each entry, as `inodes.load` would give it; None if it is not to be had."""
        states = dict(zip(self._subdirectories, self._states, strict=True))
        files: list[File | None] = []
        for id_, inode, shadow in zip(self.ids, self._inodes, self._shadows, strict=True):
            if inode is None:
                files.append(None)
            elif inode.type is _REGULAR:
                files.append(File(id_, inode if shadow is None else shadow, None))
            elif inode.type is _DIRECTORY:
                state = states[id_]
                files.append(None if state is None else File(id_, inode, state))
            else:
                files.append(File(id_, inode, None))
        return files


def read_run(
    view: View,
    directory: File,
    place: int,
    halvings: int,
    *,
    with_files: bool,
    is_guarded: bool,
    known: Run | None = None,
) -> Run:
    """The run that a place belongs to.  It is `known` itself if that is still so.

    `is_guarded` says that the view shows one moment: then entries are as they were if the directory's state is, for
    every change of an entry goes with one of the state.
    """
    start, end = bounds_of(place, halvings)
    state = directory.state if is_guarded else None
    if known is not None and known.state is not None and known.state is state:
        rows = known.rows
    else:
        rows = _read_rows(view, directory.id, start, end, LONGEST_RUN + 1)
        if known is not None and rows == known.rows:
            rows = known.rows
            known.state = state
    if known is not None and rows is known.rows and (not with_files or known.has_same_files(view)):
        return known
    is_whole = len(rows) <= LONGEST_RUN
    if not is_whole:
        rows = _read_rows(view, directory.id, place, end, SHORT_RUN)
        if len(rows) == SHORT_RUN:
            end = rows[-1][0][1] + 1
    run = Run(rows, end, is_whole=is_whole, state=state)
    if with_files:
        run.load_files(view)
    return run


def _read_rows(view: View, directory: FileId, start: int, end: int, limit: int) -> Sequence[Row]:
    return view.scan(ENTRIES, (directory, start), (directory, end), limit)


def halvings_for(entries: int, present: int) -> int:
    """How often the range of places is halved for a directory with so many entries.  What it is now is kept as long as
    it is not far off, so that a directory does not go to and fro between two ways to be cut."""
    if present >= 0:
        length = entries >> present
        if length < RUN_ENTRIES * 2 and (length >= RUN_ENTRIES // 4 or present == 0):
            return present
    return (entries // RUN_ENTRIES).bit_length()


def bounds_of(place: int, halvings: int) -> tuple[int, int]:
    """The places from the first to before the last of the run that a place belongs to."""
    width = END_OF_PLACES >> halvings
    start = place - place % width
    return start, start + width
