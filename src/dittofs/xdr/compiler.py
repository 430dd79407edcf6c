"""Turns a shape into a decode and an encode function: Python source, written once, compiled once.

The idea is the *run*: words of fixed size are collected, over the borders of nested structs, and only when something
of variable size follows are they read or written, by one `struct` call.  A length, a presence flag or a discriminant
is the last word of the run in front of it.  Structs and unions are written out in place, so that one function handles
the whole type.  The text of each function is in `linecache`, so that tracebacks and debuggers show it.
"""

from collections.abc import Callable
from typing import Any

from dittofs.xdr.decoding import DecodeWriter
from dittofs.xdr.encoding import EncodeWriter
from dittofs.xdr.errors import UnencodableValue
from dittofs.xdr.shapes import Shape, Switch


def compile_decode(name: str, shape: Shape) -> Callable[..., Any]:
    """``decode(buffer, position) -> (value, position behind it)``; raises XdrError only."""
    return DecodeWriter(name).write(shape)


def compile_encode(name: str, shape: Shape) -> Callable[..., Any]:
    """``encode(out, value)``: appends chunks to the list `out`."""
    return EncodeWriter(name).write(shape)


def compile_arm_encode(name: str, switch: Switch, discriminant: int) -> Callable[..., Any]:
    """``encode(out, arm_value)``: writes the discriminant and its arm."""
    arm = switch.arms.get(discriminant, switch.default)
    if arm is None:
        raise UnencodableValue(f"{name} has no arm for {discriminant}")
    return EncodeWriter(name).write_arm(switch, discriminant, arm)
