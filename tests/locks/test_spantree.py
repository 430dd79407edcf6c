"""The index of ranges gives what a plain list gives, in the same order, and does not scan [LOCK-9]."""

import random
from dataclasses import dataclass
from unittest import mock

import pytest

from dittofs.locks import spantree
from dittofs.locks.spans import END
from dittofs.locks.spantree import (
    Bag,
    SpanTree,
    added,
    behind,
    count,
    everything,
    is_overlapped,
    overlapping,
    removed,
)


@dataclass(frozen=True)
class Range:
    id: int
    start: int
    end: int


def plain(items: list[Range], start: int, end: int) -> list[Range]:
    found = [item for item in items if item.start < end and start < item.end]
    return sorted(found, key=lambda item: (item.start, item.id))


def is_sound(node: object) -> None:
    """Every branch knows its nodes' first keys and how far they reach; all leaves are equally deep."""
    if isinstance(node, spantree._Branch):
        assert node.keys == [below.first() for below in node.nodes]
        assert node.starts == [key[0] for key in node.keys]
        assert node.ends == [below.end for below in node.nodes]
        assert node.reach == [max(node.ends[: index + 1]) for index in range(len(node.ends))]
        assert node.end == max(node.ends)
        assert len({type(below) for below in node.nodes}) == 1
        for below in node.nodes:
            is_sound(below)
    else:
        assert isinstance(node, spantree._Leaf)
        assert node.starts == [item.start for item in node.items]
        assert node.reach == [max(item.end for item in node.items[: index + 1]) for index in range(len(node.items))]
        assert node.end == max(item.end for item in node.items)


@pytest.mark.parametrize("seed", range(4))
def test_a_bag_is_a_list(seed: int) -> None:
    """Equal starts, equal ranges, long ones over short ones, from empty to several levels and back."""
    choose = random.Random(seed)
    bag: Bag[Range] = None
    items: list[Range] = []
    with mock.patch.object(spantree, "FANOUT", 8):  # several levels with few ranges
        for number in range(150):
            if choose.random() < 0.7 or not items:
                start = choose.randrange(60)
                items.append(Range(number, start, start + choose.choice([1, 1, 2, 5, 40, END - 100])))
                bag = added(bag, items[-1])
            else:
                bag = removed(bag, items.pop(choose.randrange(len(items))))
            low = choose.randrange(80)
            high = low + choose.choice([1, 2, 7])
            assert list(overlapping(bag, low, high)) == plain(items, low, high)
            assert is_overlapped(bag, low, high) == bool(plain(items, low, high))
            assert count(bag) == len(items)
            place = (low, choose.randrange(number + 1))
            assert list(behind(bag, place)) == [item for item in plain(items, 0, END) if (item.start, item.id) > place]
            if isinstance(bag, SpanTree):
                is_sound(bag._root)
        assert list(everything(bag)) == plain(items, 0, END)
        for item in items:
            bag = removed(bag, item)
    assert bag is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_big_tree_grows_and_shrinks_and_stays_sound(seed: int) -> None:
    """[LOCK-9]"""
    choose = random.Random(seed)
    items = [
        Range(number, start := choose.randrange(5_000), start + choose.choice([1, 3, 2_000])) for number in range(4_000)
    ]
    tree = SpanTree(items[:2])
    for item in items[2:]:
        tree.add(item)
    is_sound(tree._root)
    choose.shuffle(items)
    while len(items) > 3:
        for _ in range(max(1, len(items) // 3)):
            tree.remove(items.pop())
        is_sound(tree._root)
        low = choose.randrange(5_000)
        assert list(tree.overlapping(low, low + 10)) == plain(items, low, low + 10)
        assert tree.is_overlapped(low, low + 10) == bool(plain(items, low, low + 10))
        assert list(tree) == plain(items, 0, END)
        assert tree.count == len(items)
    assert isinstance(tree._root, spantree._Leaf), "a tree that shrank is as flat as one that never grew"


def test_what_is_not_there_cannot_be_removed() -> None:
    one, two = Range(1, 0, 5), Range(2, 0, 5)
    with pytest.raises(AssertionError):
        removed(None, one)
    with pytest.raises(AssertionError):
        removed(one, two)
