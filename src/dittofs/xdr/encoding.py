"""Writes encode functions: ``encode(out, value)`` appends chunks to the list `out`.

Appending to a list costs what adding to a bytearray costs, and does not copy the payload: large opaque data is a
chunk of its own, sent from where it is.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dittofs.xdr.errors import UnencodableValue
from dittofs.xdr.shapes import (
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

PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")
"""By the length of the data modulo 4."""


class EncodeWriter(SourceWriter):
    def __init__(self, title: str) -> None:
        super().__init__(title, _NAMES)

    def write(self, shape: Shape) -> Callable[..., Any]:
        """The function that encodes values of this shape."""
        return self._write(lambda: self.field(shape, "value", self.title))

    def write_arm(self, switch: Switch, discriminant: int, arm: Shape) -> Callable[..., Any]:
        """The function that encodes a known discriminant and the value of its arm."""
        return self._write(lambda: self._arm(switch, str(discriminant), arm, "value", self.title))

    def _write(self, body: Callable[[], None]) -> Callable[..., Any]:
        with self.block("def encode(out, value):"):
            self.line("append = out.append")
            with self.block("try:"):
                body()
                self.flush()
            with self.block("except struct_error as error:"):
                self.line(f"raise cannot_encode({self.title!r}, error) from None")
        return self.function("encode")

    def flush(self) -> None:
        """Write the run: packed now if all of it is known now."""
        if not self.run:
            return
        codes, texts = "".join(code for code, _ in self.run), [text for _, text in self.run]
        layout = struct.Struct(">" + codes)
        if all(text.lstrip("-").isdecimal() for text in texts):
            self.line(f"append({layout.pack(*map(int, texts))!r})")
        else:
            self.names[f"pack_{codes}"] = layout.pack
            self.line(f"append(pack_{codes}({', '.join(texts)}))")
        self.run = []

    @contextmanager
    def _branch(self, condition: str) -> Iterator[None]:
        """One of several ways on: each begins with the run as it is now and flushes it."""
        before = list(self.run)
        with self.block(condition):
            yield
            self.flush()
        self.run = before

    def _local(self, hint: str, expression: str) -> str:
        name = self.variable(hint)
        self.line(f"{name} = {expression}")
        return name

    def field(self, shape: Shape, expression: str, path: str) -> None:
        """Write what encodes the value of `expression`, at the latest when the run is flushed."""
        match shape:
            case Void():
                self.raise_if(f"{expression} is not None", f"not_void({path!r}, {expression})")
            case Number(code) | Choice(code):
                self.word(code, expression)
            case FixedBytes(size):
                self.word(fixed_code(size), self._of_length(size, expression, path))
            case VariableBytes(maximum):
                self._variable_bytes(maximum, expression, path)
            case Record():
                value = expression if expression.isidentifier() else self._local(shape.made.__name__, expression)
                for name, part in shape.fields:
                    self.field(part, f"{value}.{name}", f"{path}.{name}")
            case Maybe(element):
                self._maybe(element, expression, path)
            case FixedSequence(element, count):
                items = self._of_length(count, expression, path)
                self.flush()
                self._elements(element, items, path)
            case Sequence(element, maximum):
                items, _ = self._measured(maximum, expression, path)
                self.flush()
                self._elements(element, items, path)
            case LinkedList():
                self._linked_list(shape, expression, path)
            case Encodable(element):
                self._encodable(element, expression, path)
            case Remembered(element):
                self.field(element, expression, path)
            case Switch():
                self._switch(shape, expression, path)

    def _of_length(self, size: int, expression: str, path: str) -> str:
        data = self._local("data", expression)
        self.raise_if(f"len({data}) != {size}", f"wrong_length({path!r}, len({data}), {size})")
        return data

    def _measured(self, maximum: int, expression: str, path: str) -> tuple[str, str]:
        """Check a length and add it to the run."""
        data = self._local("data", expression)
        length = self._local("length", f"len({data})")
        self.raise_if(f"{length} > {maximum}", f"too_long({path!r}, {length}, {maximum})")
        self.word("I", length)
        return data, length

    def _variable_bytes(self, maximum: int, expression: str, path: str) -> None:
        data, length = self._measured(maximum, expression, path)
        self.flush()
        self.line(f"append({data})")
        with self.block(f"if {length} & 3:"):
            self.line(f"append(PADDING[{length} & 3])")

    def _maybe(self, element: Shape, expression: str, path: str) -> None:
        value = self._local("maybe", expression)
        with self._branch(f"if {value} is None:"):
            self.word("I", "0")
        with self._branch("else:"):
            self.word("I", "1")
            self.field(element, value, path)
        self.run = []

    def _encodable(self, element: Shape, expression: str, path: str) -> None:
        value = expression if expression.isidentifier() else self._local("encodable", expression)
        with self._branch(f"if type({value}) is bytes:"):
            self.flush()
            self.line(f"append({value})")
        with self._branch("else:"):
            self.field(element, value, path)
        self.run = []

    def _elements(self, element: Shape, items: str, path: str) -> None:
        item = self.variable("item")
        with self.block(f"for {item} in {items}:"):
            self.field(element, item, path)
            self.flush()

    def _linked_list(self, shape: LinkedList, expression: str, path: str) -> None:
        items, item = self._local("items", expression), self.variable("item")
        self.raise_if(f"len({items}) > {shape.maximum}", f"too_long({path!r}, len({items}), {shape.maximum})")
        self.flush()
        with self.block(f"for {item} in {items}:"):
            self.word("I", "1")
            self.field(shape.element, item, path)
            self.flush()
        self.word("I", "0")

    def _switch(self, switch: Switch, expression: str, path: str) -> None:
        value = expression if expression.isidentifier() else self._local(switch.made.__name__, expression)
        number = self._local("number", f"{value}.discriminant")
        keyword = "if"
        for case, arm in switch.arms.items():
            with self._branch(f"{keyword} {number} == {case}:"):
                self._arm(switch, str(case), arm, f"{value}.value", path)
            keyword = "elif"
        with self._branch("else:"):
            if switch.default is None:
                self.line(f"raise no_arm({path!r}, {number})")
                self.run = []
            else:
                self._arm(switch, number, switch.default, f"{value}.value", path)
        self.run = []

    def _arm(self, switch: Switch, discriminant: str, arm: Shape, expression: str, path: str) -> None:
        self.word(switch.discriminant.code, discriminant)
        self.field(arm, expression, path)


def _wrong_length(path: str, length: int, size: int) -> UnencodableValue:
    return UnencodableValue(f"{path}: length {length}, must be {size}")


def _too_long(path: str, length: int, maximum: int) -> UnencodableValue:
    return UnencodableValue(f"{path}: length {length}, allowed are {maximum}")


def _no_arm(path: str, number: object) -> UnencodableValue:
    return UnencodableValue(f"{path}: there is no arm for {number!r}")


def _not_void(path: str, value: object) -> UnencodableValue:
    return UnencodableValue(f"{path}: this is void, {value!r} cannot be in it")


def _cannot_encode(name: str, error: struct.error) -> UnencodableValue:
    return UnencodableValue(f"{name}: {error}")


_NAMES = {
    "PADDING": PADDING,
    "wrong_length": _wrong_length,
    "too_long": _too_long,
    "no_arm": _no_arm,
    "not_void": _not_void,
    "cannot_encode": _cannot_encode,
}
