"""Tables and figures for people: plain columns that also survive a pipe."""

import json
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any


def print_table(titles: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Columns as wide as they must be; `empty` is said where there is nothing."""
    found = [[_cell(cell) for cell in row] for row in rows]
    if not found:
        print(empty)
        return
    widths = [max(len(row[at]) for row in [list(titles), *found]) for at in range(len(titles))]
    for row in [list(titles), *found]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """One line for each, the names in a column."""
    found = [(name, _cell(value)) for name, value in facts]
    width = max(len(name) for name, _ in found)
    for name, value in found:
        print(f"{name.ljust(width)}  {value}".rstrip())


def _cell(value: object) -> str:
    text = "-" if value is None or value == "" else str(value)
    return "".join(character if character.isprintable() else "?" for character in text)


def span(seconds: float) -> str:
    """Such as 12s, 3m04s, 2h15m, 3d04h."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02}h"


def since(moment: float | None) -> str:
    return "-" if moment is None else span(time.time() - moment)


def when(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def size(count: float | None) -> str:
    if count is None:
        return "-"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("the last unit fits everything")


def byte_range(part: dict[str, Any]) -> str:
    """Of a lock or a request, both ends included."""
    if part["type"] == "reservation":
        return f"{part['access']}, deny {part['deny']}"
    if part["end"] is None:
        return "all" if part["start"] == 0 else f"{part['start']}-"
    return f"{part['start']}-{part['end'] - 1}"


def owner(part: dict[str, Any]) -> str:
    return f"{part['name']}/{part['process']}" + (f" ({part['address']})" if part["address"] else "")


def file(part: dict[str, Any]) -> str:
    return part["path"] or f"{part['share']} file {part['file']}"
