"""Hypothesis strategies derived from XDR declarations: a new type is tested by being declared."""

import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any, assert_never

from hypothesis import strategies as st

import dittofs.protocols
from dittofs.xdr import shapes
from dittofs.xdr.types import shape_of

MAX_BYTES = 70  # beyond the 64 of a file handle; every remainder modulo 4 is in it
MAX_ELEMENTS = 3

_RANGES = {"I": (0, 2**32 - 1), "i": (-(2**31), 2**31 - 1), "Q": (0, 2**64 - 1), "q": (-(2**63), 2**63 - 1)}


def values_of(declaration: Any) -> st.SearchStrategy[Any]:
    """Values that the declaration allows."""
    return _values(shape_of(declaration))


def declared_in(module: ModuleType) -> list[type]:
    """Every struct and union that a module declares itself."""
    return [item for item in vars(module).values() if _is_declaration(item) and item.__module__ == module.__name__]


def wire_modules() -> Iterator[ModuleType]:
    """The modules of this program that declare XDR types: RPC's own, and each protocol's `types`."""
    yield importlib.import_module("dittofs.rpc.messages")
    yield importlib.import_module("dittofs.rpc.credentials")
    for package in pkgutil.iter_modules(dittofs.protocols.__path__, "dittofs.protocols."):
        if importlib.util.find_spec(f"{package.name}.types") is not None:
            yield importlib.import_module(f"{package.name}.types")


def _is_declaration(item: object) -> bool:
    if not isinstance(item, type):
        return False
    try:
        return isinstance(shape_of(item), shapes.Record | shapes.Switch)
    except TypeError:
        return False


@functools.cache
def _values(shape: shapes.Shape) -> st.SearchStrategy[Any]:
    match shape:
        case shapes.Void():
            return st.none()
        case shapes.Number(code):
            return st.integers(*_RANGES[code])
        case shapes.Choice():
            return st.sampled_from([*shape.table.values()])
        case shapes.FixedBytes(size):
            return st.binary(min_size=size, max_size=size)
        case shapes.VariableBytes(maximum):
            return st.binary(max_size=min(maximum, MAX_BYTES))
        case shapes.Record():
            return st.builds(shape.made, **{name: _values(part) for name, part in shape.fields})
        case shapes.Maybe(element):
            return st.none() | _values(element)
        case shapes.FixedSequence(element, count):
            return st.lists(_values(element), min_size=count, max_size=count)
        case shapes.Sequence(element, maximum) | shapes.LinkedList(element, maximum):
            return st.lists(_values(element), max_size=min(maximum, MAX_ELEMENTS))
        case shapes.Encodable(element) | shapes.Remembered(element):
            return _values(element)
        case shapes.Switch():
            return _union_values(shape)
        case _:
            assert_never(shape)


def _union_values(switch: shapes.Switch) -> st.SearchStrategy[Any]:
    discriminants = switch.discriminant
    table = discriminants.table if isinstance(discriminants, shapes.Choice) else {}
    ways = [
        st.builds(switch.made, st.just(table.get(number, number)), _values(arm)) for number, arm in switch.arms.items()
    ]
    others = _values(discriminants).filter(lambda number: number not in switch.arms)
    if switch.default is not None and not (table and table.keys() <= switch.arms.keys()):
        ways.append(st.builds(switch.made, others, _values(switch.default)))
    return st.one_of(ways)
