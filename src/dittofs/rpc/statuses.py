"""The status that a result tells its client, as a word for the metrics: `NFS3ERR_NOENT` is "noent" (pure).

Found by the declaration of the result: the discriminant of a union, or the first enum of a struct.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from dittofs.xdr import shapes
from dittofs.xdr.types import shape_of

OK = "ok"

StatusOf = Callable[[Any], str]


def word_of(member: IntEnum) -> str:
    """Without the prefix that says which protocol it is of."""
    return (member.name.partition("_")[2] or member.name).lower()


def status_reader(declaration: Any) -> StatusOf | None:
    """What reads the status of such results; None if they have none: then every answer is "ok"."""
    return _reader(shape_of(declaration))


def _reader(shape: shapes.Shape) -> StatusOf | None:
    match shape:
        case shapes.Switch(discriminant=shapes.Choice(table=table)) if _is_enum(table):
            words = {int(member): word_of(member) for member in table.values()}
            return lambda result: words[result.discriminant]
        case shapes.Switch():
            return lambda result: OK if result.discriminant == 0 else "error"
        case shapes.Choice(table=table) if _is_enum(table):
            words = {int(member): word_of(member) for member in table.values()}
            return lambda result: words[result]
        case shapes.Record(fields=fields):
            for name, part in fields:
                inner = _reader(part) if isinstance(part, shapes.Switch | shapes.Choice) else None
                if inner is not None:
                    return _reader_of_field(name, inner)
    return None


def _reader_of_field(name: str, inner: StatusOf) -> StatusOf:
    return lambda result: inner(getattr(result, name))


def _is_enum(table: shapes.LookupTable) -> bool:
    return all(isinstance(member, IntEnum) for member in table.values())
