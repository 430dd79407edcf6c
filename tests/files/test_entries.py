"""Places of names: collisions, gaps in chains, and listings that go on while entries come and go."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dittofs.files import entries, namespace
from dittofs.files.cookies import END_OF_PLACES, FIRST_PLACE, PLACES_REMEMBERED, Places, place_function
from dittofs.files.records import ENTRIES
from dittofs.files.tree import Tree
from dittofs.files.values import NOTHING
from dittofs.model.ids import FileId
from tests.files.world import ROOT, SHARE, At, MemoryTransactions, PlaceOf, World, weak_place_of

DIRECTORY = FileId(1)


def one_place(name: bytes) -> int:
    return FIRST_PLACE


def last_places(name: bytes) -> int:
    """Names whose chain goes over the end, and on from the beginning."""
    return END_OF_PLACES - 2 + (sum(name) & 1)


HASHES = [weak_place_of, one_place, last_places]


class Directory:
    """One directory's entries over any hash."""

    def __init__(self, place_of: PlaceOf):
        self.tree = Tree(SHARE, DIRECTORY, place_of)
        self.transactions = MemoryTransactions()

    def find(self, name: bytes) -> FileId | None:
        entry = self.transactions.run(entries.seek, self.tree, DIRECTORY, name).entry
        return None if entry is None else entry.file

    def add(self, name: bytes, file: int) -> None:
        def work(view: object) -> None:
            entries.add(view, DIRECTORY, entries.seek(view, self.tree, DIRECTORY, name), FileId(file))  # type: ignore[arg-type]

        self.transactions.run(work)

    def take_out(self, name: bytes) -> None:
        def work(view: object) -> None:
            entries.take_out(view, DIRECTORY, entries.seek(view, self.tree, DIRECTORY, name))  # type: ignore[arg-type]

        self.transactions.run(work)

    def place(self, name: bytes) -> int:
        place: int = self.transactions.run(entries.seek, self.tree, DIRECTORY, name).place
        return place

    @property
    def records(self) -> int:
        return len(self.transactions.rows[ENTRIES.number])


some_names = st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"])
steps = st.lists(st.tuples(st.booleans(), some_names), max_size=60)


@pytest.mark.parametrize("place_of", HASHES)
@given(steps=steps)
@settings(max_examples=60)
def test_names_that_collide_are_found_and_never_move(place_of: PlaceOf, steps: list[tuple[bool, bytes]]) -> None:
    directory = Directory(place_of)
    expected: dict[bytes, tuple[int, int]] = {}
    for number, (is_added, name) in enumerate(steps, start=1):
        if is_added and name not in expected:
            directory.add(name, number)
            expected[name] = number, directory.place(name)
        elif not is_added and name in expected:
            directory.take_out(name)
            del expected[name]
        for other in (b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"):
            if other in expected:
                assert (directory.find(other), directory.place(other)) == expected[other]
            else:
                assert directory.find(other) is None
    for name in expected:
        directory.take_out(name)
    assert directory.records == 0, "nothing is left of an empty directory"


def test_a_home_that_became_free_still_leads_to_what_it_displaced() -> None:
    directory = Directory(one_place)
    for number, name in enumerate((b"a", b"b", b"c"), start=1):
        directory.add(name, number)
    directory.take_out(b"a")
    assert (directory.find(b"a"), directory.find(b"b"), directory.find(b"c")) == (None, 2, 3)
    directory.take_out(b"b")
    assert directory.find(b"c") == 3
    directory.add(b"d", 4)
    assert directory.place(b"d") == FIRST_PLACE, "a free home is used again"
    assert (directory.find(b"c"), directory.find(b"d")) == (3, 4)


def test_a_chain_longer_than_one_scan() -> None:
    directory = Directory(one_place)
    names = [b"%d" % number for number in range(200)]
    for number, name in enumerate(names, start=1):
        directory.add(name, number)
    assert directory.find(b"199") == 200
    assert directory.find(b"nothing") is None
    for name in names[:150]:
        directory.take_out(name)
    assert directory.find(b"199") == 200
    assert directory.find(b"nothing") is None


@pytest.mark.parametrize("place_of", [None, *HASHES])
@given(data=st.data())
@settings(max_examples=60)
def test_what_is_there_all_the_time_is_listed_exactly_once(place_of: PlaceOf | None, data: st.DataObject) -> None:
    """[NFS-1]: cookies are stable over concurrent changes."""
    world = World(place_of)
    everything = [b"%d" % number for number in range(16)]
    present = set(data.draw(st.lists(st.sampled_from(everything), unique=True)))
    for name in sorted(present):
        make(world, name)
    throughout = set(present)
    ever = set(present)
    seen: list[bytes] = []
    cookie, at_end = 0, False
    while not at_end:
        listing = world.call(namespace.read_directory, ROOT, At(world.root), cookie, data.draw(st.integers(1, 5)))
        seen += [entry.name for entry in listing.entries]
        at_end = listing.at_end
        if listing.entries:
            cookie = listing.entries[-1].cookie
        for name in data.draw(st.lists(st.sampled_from(everything), max_size=4)):
            if name in present:
                world.call(namespace.remove, ROOT, At(world.root), name)
                present.discard(name)
                throughout.discard(name)
            else:
                make(world, name)
                present.add(name)
                ever.add(name)
    assert seen[:2] == [b".", b".."]
    assert sorted(name for name in seen if name in throughout) == sorted(throughout)
    assert set(seen[2:]) <= ever


def make(world: World, name: bytes) -> None:
    world.call(namespace.make_symlink, ROOT, At(world.root), name, b"t", NOTHING)


@given(st.binary(min_size=1, max_size=255))
def test_places_are_cookies_that_clients_can_keep(name: bytes) -> None:
    place = place_function(SHARE)(name)
    assert FIRST_PLACE <= place < 2**63
    assert place == place_function(SHARE)(name), "the same after a restart"
    assert place != place_function(b"another!")(name), "another share has other places"


def test_a_name_stays_in_the_place_that_stores_on_disk_have_for_it() -> None:
    place_of = place_function(SHARE)
    assert [place_of(b"file"), place_of(b"a" * 255), place_of(b"\xff")] == [
        2221381078806545637,
        6591037695436378653,
        2884352284857235092,
    ]


def test_places_are_remembered_within_bounds() -> None:
    places = Places(SHARE)
    for number in range(2 * PLACES_REMEMBERED + 1):
        places.place_of(b"%d" % number)
        assert len(places._known) <= PLACES_REMEMBERED
    assert places.place_of(b"file") == place_function(SHARE)(b"file")
