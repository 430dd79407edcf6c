"""An index of ranges: "which of these overlap that one" in the logarithm of their number.

A B+ tree ordered by (start, id); every branch also knows the greatest end below each of its nodes, so that one long
range over thousands of short ones, or thousands of equal ones, costs nobody a scan.  Wide nodes, because `bisect`
in C over a short list beats any pointer-chasing in Python.

Most files and most owners have one lock, so a `Bag` is nothing, one thing, or a tree.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Generic, Protocol, TypeAlias, TypeVar

FANOUT = 128

Key = tuple[int, int]


class Spanned(Protocol):
    """A range with an id that no other in the same tree has."""

    @property
    def id(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


T = TypeVar("T", bound=Spanned)

_key = attrgetter("start", "id")


def _where_to_split(index: int) -> int:
    """A node that is too full since something came in at `index`.  Who locks a file from its beginning to its end
    leaves full nodes behind: fewer of them, and fewer levels."""
    return FANOUT - FANOUT // 8 if index == FANOUT else FANOUT // 2


class _Leaf(Generic[T]):
    """Starts and reach are lists of their own: a search looks at a handful of numbers, and at no range that it does not
    find.  In a table that is larger than the processor's caches that is most of what a search costs."""

    __slots__ = ("items", "reach", "starts")

    def __init__(self, items: list[T]) -> None:
        self.items = items
        self.starts: list[int] = [item.start for item in items]
        self.reach: list[int] = list(accumulate([item.end for item in items], max))
        """How far the items up to each one reach."""

    @property
    def end(self) -> int:
        return self.reach[-1] if self.reach else 0

    def first(self) -> Key:
        item = self.items[0]
        return item.start, item.id

    def size(self) -> int:
        return len(self.items)

    def add(self, item: T) -> "_Leaf[T] | None":
        """The new right neighbour, if this one became too full."""
        items, starts, reach = self.items, self.starts, self.reach
        start, end = item.start, item.end
        index = bisect_right(starts, start)
        while index and starts[index - 1] == start and items[index - 1].id > item.id:
            index -= 1
        so_far = reach[index - 1] if index else 0
        items.insert(index, item)
        starts.insert(index, start)
        reach.insert(index, max(so_far, end))
        count, later = len(items), index + 1
        while later < count and reach[later] < end:
            reach[later] = end
            later += 1
        if count <= FANOUT:
            return None
        middle = _where_to_split(index)
        right = _Leaf(items[middle:])
        del items[middle:], starts[middle:], reach[middle:]
        return right

    def remove(self, item: T) -> None:
        items, starts, reach = self.items, self.starts, self.reach
        start, end, number = item.start, item.end, item.id
        index = bisect_left(starts, start)
        while items[index].id != number:
            index += 1
        assert starts[index] == start, "what is removed must be in the tree"
        del items[index], starts[index], reach[index]
        so_far = reach[index - 1] if index else 0
        if so_far >= end:
            return
        # Where the others reach no farther than it did, they may have been told so because of it.
        count = len(items)
        while index < count and reach[index] == end:
            so_far = max(so_far, items[index].end)
            if so_far == end:
                return
            reach[index] = so_far
            index += 1

    def absorb(self, right: "_Leaf[T]") -> None:
        end = self.end
        self.items += right.items
        self.starts += right.starts
        self.reach += [max(end, reach) for reach in right.reach]

    def overlapping(self, start: int, end: int) -> Sequence[T]:
        first = stop = bisect_left(self.starts, end)
        reach = self.reach
        while first and reach[first - 1] > start:
            first -= 1
        if first == stop:
            return ()
        return [item for item in self.items[first:stop] if item.end > start]

    def is_overlapped(self, start: int, end: int) -> bool:
        stop = bisect_left(self.starts, end)
        return stop > 0 and self.reach[stop - 1] > start

    def behind(self, key: Key) -> Iterator[T]:
        return iter(self.items[bisect_right(self.items, key, key=_key) :])

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)


class _Branch(Generic[T]):
    __slots__ = ("end", "ends", "keys", "nodes", "reach", "starts")

    def __init__(self, nodes: "list[_Leaf[T] | _Branch[T]]") -> None:
        self.nodes = nodes
        self.keys: list[Key] = [node.first() for node in nodes]
        self.starts: list[int] = [start for start, _ in self.keys]
        """Of the keys: to search for a start takes half the memory of a search for a key."""
        self.ends: list[int] = [node.end for node in nodes]
        self.reach: list[int] = []
        """How far the nodes up to each one reach: it only grows, so that it can be searched by halves."""
        self.end: int = 0
        self._measure()

    def _measure(self) -> None:
        """To be called after any change of `ends`."""
        self.reach = list(accumulate(self.ends, max))
        self.end = self.reach[-1] if self.reach else 0

    def first(self) -> Key:
        return self.keys[0]

    def size(self) -> int:
        return len(self.nodes)

    def add(self, item: T) -> "_Branch[T] | None":
        """The new right neighbour, if this one became too full."""
        index = max(bisect_right(self.keys, (item.start, item.id)) - 1, 0)
        node = self.nodes[index]
        right = node.add(item)
        self._set_key(index, node.first())
        if right is not None:
            self.nodes.insert(index + 1, right)
            self.keys.insert(index + 1, right.first())
            self.starts.insert(index + 1, right.first()[0])
            self.ends.insert(index + 1, right.end)
            self.ends[index] = node.end
            if len(self.nodes) > FANOUT:
                return self._split(index + 1)
            self._measure()
        elif node.end != self.ends[index]:
            self._set_end(index, node.end)
        return None

    def _set_key(self, index: int, key: Key) -> None:
        self.keys[index] = key
        self.starts[index] = key[0]

    def _set_end(self, index: int, end: int) -> None:
        ends, reach = self.ends, self.reach
        ends[index] = end
        so_far = reach[index - 1] if index else 0
        for later in range(index, len(ends)):
            so_far = max(so_far, ends[later])
            if reach[later] == so_far:
                break
            reach[later] = so_far
        self.end = reach[-1]

    def _split(self, index: int) -> "_Branch[T]":
        middle = _where_to_split(index)
        right = _Branch(self.nodes[middle:])
        del self.nodes[middle:], self.keys[middle:], self.starts[middle:], self.ends[middle:]
        self._measure()
        return right

    def remove(self, item: T) -> None:
        index = max(bisect_right(self.keys, (item.start, item.id)) - 1, 0)
        node = self.nodes[index]
        node.remove(item)
        if node.size() == 0:
            del self.nodes[index], self.keys[index], self.starts[index], self.ends[index]
            self._measure()
            return
        self._set_key(index, node.first())
        if node.end != self.ends[index]:
            self._set_end(index, node.end)
        if node.size() < FANOUT // 4:
            self._merge(max(index - 1, 0))

    def _merge(self, index: int) -> None:
        """Join two thin neighbours: a table that shrank is not to be slower than one that never grew."""
        if index + 1 >= len(self.nodes):
            return
        left, right = self.nodes[index], self.nodes[index + 1]
        if left.size() + right.size() > FANOUT // 2:
            return
        if isinstance(left, _Leaf):
            assert isinstance(right, _Leaf), "all leaves are at one depth"
            left.absorb(right)
        else:
            assert isinstance(right, _Branch), "all leaves are at one depth"
            left.absorb(right)
        self.ends[index] = left.end
        del self.nodes[index + 1], self.keys[index + 1], self.starts[index + 1], self.ends[index + 1]
        self._measure()

    def absorb(self, right: "_Branch[T]") -> None:
        self.nodes += right.nodes
        self.keys += right.keys
        self.starts += right.starts
        self.ends += right.ends
        self._measure()

    def within(self, start: int, end: int) -> tuple[int, int]:
        """Which nodes can have something that overlaps."""
        stop = bisect_left(self.starts, end)
        return bisect_right(self.reach, start, 0, stop), stop

    def overlapping(self, start: int, end: int) -> Iterator[T]:
        nodes, ends = self.nodes, self.ends
        for index in range(*self.within(start, end)):
            if ends[index] > start:
                yield from nodes[index].overlapping(start, end)

    def is_overlapped(self, start: int, end: int) -> bool:
        """All nodes but the last that begins before the end lie before it as a whole."""
        stop = bisect_left(self.starts, end)
        if stop > 1 and self.reach[stop - 2] > start:
            return True
        return stop > 0 and self.nodes[stop - 1].is_overlapped(start, end)

    def behind(self, key: Key) -> Iterator[T]:
        first = max(bisect_right(self.keys, key) - 1, 0)
        yield from self.nodes[first].behind(key)
        for node in self.nodes[first + 1 :]:
            yield from node

    def __iter__(self) -> Iterator[T]:
        for node in self.nodes:
            yield from node


class SpanTree(Generic[T]):
    """Two or more ranges, which may overlap and even be equal, in the order of their starts."""

    __slots__ = ("_root", "count")

    def __init__(self, items: list[T]) -> None:
        self._root: _Leaf[T] | _Branch[T] = _Leaf(sorted(items, key=_key))
        self.count = len(items)

    def add(self, item: T) -> None:
        root = self._root
        right = root.add(item)
        if right is not None:
            self._root = _Branch([root, right])
        self.count += 1

    def remove(self, item: T) -> None:
        root = self._root
        root.remove(item)
        self.count -= 1
        while isinstance(root, _Branch) and len(root.nodes) == 1:
            root = self._root = root.nodes[0]

    def overlapping(self, start: int, end: int) -> Iterable[T]:
        """Goes straight down while there is one way only: a generator per level would cost more than the search."""
        node = self._root
        while isinstance(node, _Branch):
            first, stop = node.within(start, end)
            if stop - first != 1:
                break
            node = node.nodes[first]
        return node.overlapping(start, end)

    def is_overlapped(self, start: int, end: int) -> bool:
        return self._root.is_overlapped(start, end)

    def behind(self, key: Key) -> Iterator[T]:
        return self._root.behind(key)

    def __iter__(self) -> Iterator[T]:
        return iter(self._root)


Bag: TypeAlias = SpanTree[T] | T | None


def added(bag: Bag[T], item: T) -> Bag[T]:
    if bag is None:
        return item
    if isinstance(bag, SpanTree):
        bag.add(item)
        return bag
    return SpanTree([bag, item])


def removed(bag: Bag[T], item: T) -> Bag[T]:
    if isinstance(bag, SpanTree):
        bag.remove(item)
        return bag if bag.count > 1 else next(iter(bag))
    assert bag is not None, "what is removed must be in the bag"
    assert bag.id == item.id, "what is removed must be in the bag"
    return None


def overlapping(bag: Bag[T], start: int, end: int) -> Iterable[T]:
    """In the order of their starts.  The bag must not be changed before the last one was looked at."""
    if bag is None:
        return ()
    if isinstance(bag, SpanTree):
        return bag.overlapping(start, end)
    return (bag,) if bag.start < end and start < bag.end else ()


def is_overlapped(bag: Bag[T], start: int, end: int) -> bool:
    """Is there any?"""
    if bag is None:
        return False
    if isinstance(bag, SpanTree):
        return bag.is_overlapped(start, end)
    return bag.start < end and start < bag.end


def everything(bag: Bag[T]) -> Iterator[T]:
    if bag is None:
        return iter(())
    return iter(bag) if isinstance(bag, SpanTree) else iter((bag,))


def behind(bag: Bag[T], key: Key) -> Iterator[T]:
    """Everything that comes after a start and an id, in that order."""
    if isinstance(bag, SpanTree):
        return bag.behind(key)
    return iter((bag,)) if bag is not None and (bag.start, bag.id) > key else iter(())


def count(bag: Bag[T]) -> int:
    if bag is None:
        return 0
    return bag.count if isinstance(bag, SpanTree) else 1
