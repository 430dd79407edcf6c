"""Writes decode functions: ``decode(buffer, position) -> (value, position behind it)``.

Objects are made first, with `object.__new__`, and their attributes are the targets that the run is unpacked to: a
fifth cheaper than calling `__init__`.
"""

import struct
from collections.abc import Callable
from typing import Any

from dittofs.xdr.errors import XdrError
from dittofs.xdr.shapes import (
    BOOLEANS,
    Choice,
    Encodable,
    FixedBytes,
    FixedSequence,
    LinkedList,
    Maybe,
    Number,
    Record,
    Remembered,
    Sequence,
    Shape,
    Switch,
    VariableBytes,
    Void,
)
from dittofs.xdr.source import SourceWriter, fixed_code

REMEMBERED_BYTES_MAX = 64
REMEMBERED_MOST = 256


class DecodeWriter(SourceWriter):
    def __init__(self, title: str) -> None:
        super().__init__(title, _NAMES)
        self._conversions: list[str] = []  # of what the run reads

    def write(self, shape: Shape) -> Callable[..., Any]:
        """The function that decodes values of this shape."""
        with self.block("def decode(buffer, position):"):
            self.line("size = len(buffer)")
            self.line("is_bytes = type(buffer) is bytes")
            with self.block("try:"):
                self.field(shape, "value", self.title)
                self.flush()
                self.line("return value, position")
            with self.block("except struct_error:"):
                self.line(f"raise ends_early({self.title!r}) from None")
        return self.function("decode")

    def flush(self) -> None:
        """Read the run, then convert what was read."""
        if self.run:
            codes = "".join(code for code, _ in self.run)
            layout = struct.Struct(">" + codes)
            self.names[f"unpack_{codes}"] = layout.unpack_from
            self.line(f"{', '.join(target for _, target in self.run)}, = unpack_{codes}(buffer, position)")
            self.line(f"position += {layout.size}")
            self.run = []
        for text in self._conversions:
            self.line(text)
        self._conversions = []

    def field(self, shape: Shape, target: str, path: str) -> None:
        """Write what assigns a value of this shape to `target`, at the latest when the run is flushed."""
        match shape:
            case Void():
                self.line(f"{target} = None")
            case Number(code):
                self.word(code, target)
            case Choice():
                self._choice(shape, target)
            case FixedBytes(size):
                self.word(fixed_code(size), target)
            case VariableBytes():
                self._variable_bytes(shape, target, path)
            case Record():
                made = self._object(shape.made, target)
                for name, part in shape.fields:
                    self.field(part, f"{made}.{name}", f"{path}.{name}")
            case Maybe(element):
                self._maybe(element, target, path)
            case FixedSequence(element, count):
                self.flush()
                self._elements(element, target, path, count=str(count))
            case Sequence(element, maximum):
                self._elements(element, target, path, count=self._length(maximum, path))
            case LinkedList():
                self._linked_list(shape, target, path)
            case Encodable() | Remembered():
                self._wrapped(shape, target, path)
            case Switch():
                self._switch(shape, target, path)

    def _object(self, made: type, target: str) -> str:
        name = self.variable(made.__name__)
        self.line(f"{name} = {target} = new({self.constant(f'{made.__name__}_type', made)})")
        return name

    def _choice(self, choice: Choice, target: str) -> None:
        number = self.variable("number")
        self.word(choice.code, number)
        table = self.constant(f"{choice.table.name}_table", choice.table)
        self._conversions.append(f"{target} = {table}[{number}]")

    def _flag(self, hint: str) -> str:
        """Read a bool, as the last word of the run."""
        flag = self.variable(hint)
        self._choice(Choice("I", BOOLEANS), flag)
        self.flush()
        return flag

    def _length(self, maximum: int, path: str) -> str:
        """Read a length, as the last word of the run, and hold it against its bound."""
        length = self.variable("length")
        self.word("I", length)
        self.flush()
        self.raise_if(f"{length} > {maximum}", f"too_long({path!r}, {length}, {maximum})")
        return length

    def _variable_bytes(self, shape: VariableBytes, target: str, path: str) -> None:
        length = self._length(shape.maximum, path)
        self.line(f"end = position + {length}")
        if shape.as_view:
            self.line(f"{target} = memoryview(buffer)[position:end]")
        else:
            self.line(f"{target} = buffer[position:end] if is_bytes else bytes(buffer[position:end])")
        self.line(f"position = end + (-{length} & 3)")
        self.raise_if("position > size", f"ends_early({path!r})")

    def _maybe(self, element: Shape, target: str, path: str) -> None:
        with self.block(f"if {self._flag('present')}:"):
            self.field(element, target, path)
            self.flush()
        with self.block("else:"):
            self.line(f"{target} = None")

    def _wrapped(self, shape: Encodable | Remembered, target: str, path: str) -> None:
        element = shape.element
        if isinstance(shape, Encodable):
            self.field(element, target, path)
            return
        self.flush()
        memory, known = self.constant("memory", {}), self.variable("known")
        self.line("rest = buffer[position:] if is_bytes else bytes(buffer[position:])")
        self.line(f"{known} = {memory}.get(rest)")
        with self.block(f"if {known} is not None:"):
            self.line(f"{target} = {known}")
            self.line("position = size")
        with self.block("else:"):
            self.field(element, target, path)
            self.flush()
            with self.block(f"if position == size and len(rest) <= {REMEMBERED_BYTES_MAX}:"):
                with self.block(f"if len({memory}) >= {REMEMBERED_MOST}:"):
                    self.line(f"{memory}.clear()")
                self.line(f"{memory}[rest] = {target}")

    def _elements(self, element: Shape, target: str, path: str, *, count: str) -> None:
        items, item = self.variable("items"), self.variable("item")
        self.line(f"{items} = {target} = []")
        with self.block(f"for _ in range({count}):"):
            self.field(element, item, path)
            self.flush()
            self.line(f"{items}.append({item})")

    def _linked_list(self, shape: LinkedList, target: str, path: str) -> None:
        items, item = self.variable("items"), self.variable("item")
        more = self._flag("more")
        self.line(f"{items} = {target} = []")
        with self.block(f"while {more}:"):
            self.raise_if(f"len({items}) == {shape.maximum}", f"too_long({path!r}, 'more', {shape.maximum})")
            self.field(shape.element, item, path)
            self._choice(Choice("I", BOOLEANS), more)
            self.flush()
            self.line(f"{items}.append({item})")

    def _switch(self, switch: Switch, target: str, path: str) -> None:
        made, number = self._object(switch.made, target), self.variable("number")
        self.word(switch.discriminant.code, number)
        self.flush()
        converted = number
        if isinstance(switch.discriminant, Choice):
            table = switch.discriminant.table
            converted = f"{self.constant(f'{table.name}_table', table)}[{number}]"
        self.line(f"{made}.discriminant = {converted}")
        keyword = "if"
        for case, arm in switch.arms.items():
            with self.block(f"{keyword} {number} == {case}:"):
                self.field(arm, f"{made}.value", path)
                self.flush()
            keyword = "elif"
        with self.block("else:"):
            if switch.default is None:
                self.line(f"raise no_arm({path!r}, {number})")
            else:
                self.field(switch.default, f"{made}.value", path)
                self.flush()


def _ends_early(path: str) -> XdrError:
    return XdrError(f"{path}: the bytes end too early")


def _too_long(path: str, length: object, maximum: int) -> XdrError:
    return XdrError(f"{path}: length {length}, allowed are {maximum}")


def _no_arm(path: str, number: int) -> XdrError:
    return XdrError(f"{path}: there is no arm for {number}")


_NAMES = {"new": object.__new__, "ends_early": _ends_early, "too_long": _too_long, "no_arm": _no_arm}
