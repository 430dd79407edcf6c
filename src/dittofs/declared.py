"""Tables of declared settings, read from nested tables, the environment and flags.

A table is a `msgspec.Struct` whose fields say what they accept: plain `bool`, `str` and `Literal` speak for
themselves, everything else is `Annotated` with one of the values below.  This module knows how to read, refuse and
print any such table, and no setting in particular.  Every problem is collected, so that one run names them all.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Protocol, TypeVar, cast, get_args, get_origin

import msgspec

MASK = "********"
URL_PASSWORD = re.compile(r"(://[^/@:\s]*:)[^/@\s]+@")
SECRET_WORDS = frozenset({"dsn", "password", "secret", "key", "token"})

S = TypeVar("S", bound=msgspec.Struct)


class Value(Protocol):
    """One kind of value: from TOML or text to what the program uses, and back to TOML."""

    def read(self, raw: Any) -> Any:
        """The value, or `ValueError` saying what it must be."""

    def parse(self, text: str) -> Any:
        """What TOML would have given for this text of the environment; nonsense comes back for `read` to refuse."""

    def write(self, value: Any) -> str:
        """The TOML literal."""


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number between two bounds."""

    minimum: int
    maximum: int
    meaning: str = ""
    is_octal: bool = False

    def read(self, raw: Any) -> int:
        if type(raw) is not int or not self.minimum <= raw <= self.maximum:
            low, high = self.write(self.minimum), self.write(self.maximum)
            raise ValueError(f"must be a whole number from {low} to {high}" + (self.meaning and f" ({self.meaning})"))
        return raw

    def parse(self, text: str) -> Any:
        try:
            return int(text.lower().removeprefix("0o"), 8) if self.is_octal else int(text)
        except ValueError:
            return text

    def write(self, value: Any) -> str:
        return f"0o{value:04o}" if self.is_octal else str(value)


@dataclass(frozen=True, slots=True)
class Seconds:
    """A time span; fractions are allowed."""

    minimum: float
    maximum: float
    meaning: str = ""

    def read(self, raw: Any) -> float:
        if type(raw) not in (int, float) or not self.minimum <= raw <= self.maximum:
            bounds = f"from {self.write(self.minimum)} to {self.write(self.maximum)}"
            raise ValueError(f"must be a number of seconds {bounds}" + (self.meaning and f" ({self.meaning})"))
        return float(raw)

    def parse(self, text: str) -> Any:
        try:
            return float(text)
        except ValueError:
            return text

    def write(self, value: Any) -> str:
        return f"{value:g}" if value < 1e6 else f"{value:.0f}"


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def read(self, raw: Any) -> bool:
        if type(raw) is not bool:
            raise ValueError("must be true or false")
        return raw

    def parse(self, text: str) -> Any:
        return {"true": True, "false": False, "1": True, "0": False}.get(text.lower(), text)

    def write(self, value: Any) -> str:
        return "true" if value else "false"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    def read(self, raw: Any) -> str:
        if raw not in self.words:
            raise ValueError(f"must be one of {', '.join(self.words)}{did_you_mean(raw, self.words)}")
        return cast("str", raw)

    def parse(self, text: str) -> Any:
        return text

    def write(self, value: Any) -> str:
        return quoted(value)


@dataclass(frozen=True, slots=True)
class Text:
    """A string that `convert` turns into something; it raises ValueError, with or without a reason of its own."""

    meaning: str
    convert: Callable[[str], Any] = str

    def read(self, raw: Any) -> Any:
        if not isinstance(raw, str):
            raise ValueError(f"must be {self.meaning}")
        try:
            return self.convert(raw)
        except ValueError as error:
            raise ValueError(f"must be {self.meaning}" + (f": {error}" if str(error) else "")) from error

    def parse(self, text: str) -> Any:
        return text

    def write(self, value: Any) -> str:
        return quoted(str(value))


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of one kind of value, in the environment separated by commas."""

    item: Value
    minimum: int = 1

    def read(self, raw: Any) -> tuple[Any, ...]:
        if not isinstance(raw, list | tuple):
            raise ValueError('must be a list, such as ["…", "…"]')
        if len(raw) < self.minimum:
            raise ValueError(f"must have at least {self.minimum} entry")
        values = []
        for position, item in enumerate(raw):
            try:
                values.append(self.item.read(item))
            except ValueError as error:
                raise ValueError(f"entry {position} ({shown(item)}) {error}") from error
        return tuple(values)

    def parse(self, text: str) -> Any:
        return [self.item.parse(part.strip()) for part in text.split(",") if part.strip()]

    def write(self, value: Any) -> str:
        return "[" + ", ".join(self.item.write(item) for item in value) + "]"


@dataclass(frozen=True, slots=True)
class Anything:
    """Whatever TOML can say: the options of a class of the user's own.  Text becomes what the file has: see `like`."""

    like: Any = ""

    def read(self, raw: Any) -> Any:
        return raw

    def parse(self, text: str) -> Any:
        if isinstance(self.like, bool):
            return Flag().parse(text)
        return Integer(0, 0).parse(text) if isinstance(self.like, int) else text

    def write(self, value: Any) -> str:
        """With what must not be seen masked, at any depth."""
        match value:
            case bool():
                return Flag().write(value)
            case int() | float():
                return str(value)
            case dict():
                return "{" + ", ".join(self.write_item(key, item) for key, item in value.items()) + "}"
            case list() | tuple():
                return "[" + ", ".join(self.write(item) for item in value) + "]"
            case _:
                return quoted(URL_PASSWORD.sub(rf"\1{MASK}@", str(value)))

    def write_item(self, key: str, value: Any) -> str:
        text = quoted(MASK) if is_secret(key) and value else self.write(value)
        return f"{quoted_key(key)} = {text}"


def value_of(annotation: Any) -> Value:
    """What a field of this annotation accepts."""
    if annotation is bool:
        return Flag()
    if get_origin(annotation) is Literal:
        return Choice(get_args(annotation))
    if get_origin(annotation) is Annotated:
        return cast("Value", annotation.__metadata__[0])
    raise TypeError(f"not a declared setting: {annotation!r}")


def is_table(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)


def is_secret(key: str) -> bool:
    return not SECRET_WORDS.isdisjoint(re.split(r"[^a-z]+", key.lower()))


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def quoted_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else quoted(key)


def shown(raw: Any) -> str:
    """A refused value for a message, cut to a bearable length."""
    text = quoted(raw) if isinstance(raw, str) else str(raw)
    return text if len(text) <= 80 else text[:77] + "…"


def did_you_mean(word: Any, known: Iterable[str]) -> str:
    matches = get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {matches[0]}?" if matches else ""


def environment_name(path: str) -> str:
    """`shares[0].read_only` is DITTOFS_SHARES_0_READ_ONLY: upper case, everything else an underscore."""
    return "DITTOFS_" + re.sub(r"[^A-Za-z0-9]+", "_", path).strip("_").upper()


@dataclass(slots=True)
class Reader:
    """Reads declared tables; keeps what was wrong and where each setting that was given came from."""

    environment: Mapping[str, str]
    flags: Mapping[str, str | list[str]]
    """Path of a setting to its text."""
    problems: list[str] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)
    known_variables: set[str] = field(default_factory=set)

    def refuse(self, path: str, why: str, raw: Any = None) -> None:
        """Note a problem; a value that is or may be a secret is not repeated."""
        given = "" if raw is None else f" = {MASK if is_secret(path) else shown(raw)}"
        origin = self.origins.get(path, "")
        self.problems.append(f"{path}{given}{origin and f' (from {origin})'}: {why}")

    def find(self, path: str, table: Mapping[str, Any], key: str, value: Value) -> Any:
        """The raw value with the highest right: flag, then environment, then file; None if nobody gave one."""
        variable = environment_name(path)
        self.known_variables.add(variable)
        if path in self.flags:
            self.origins[path] = "the command line"
            flag = self.flags[path]
            return value.parse(flag) if isinstance(flag, str) else flag
        if variable in self.environment:
            self.origins[path] = variable
            return value.parse(self.environment[variable])
        return table.get(key)

    def read_value(self, path: str, table: Mapping[str, Any], key: str, value: Value) -> Any:
        """The value of one setting, or None if it was not given or was refused."""
        raw = self.find(path, table, key, value)
        if raw is None:
            return None
        try:
            return value.read(raw)
        except ValueError as error:
            self.refuse(path, str(error), raw)
            return None

    def read_table(self, declaration: type[S], raw: Any, path: str) -> S | None:
        """The table, with defaults where something was refused; None if something needed is missing."""
        if not isinstance(raw, dict):
            self.refuse(path, "must be a table of settings", raw)
            raw = {}
        fields = msgspec.structs.fields(declaration)
        self.refuse_unknown(path, raw, [f.name for f in fields])
        values: dict[str, Any] = {}
        is_complete = True
        for declared in fields:
            problems_before = len(self.problems)
            inner = f"{path}.{declared.name}" if path else declared.name
            if is_table(declared.type):
                value = self.read_table(declared.type, raw.get(declared.name, {}), inner)
            else:
                value = self.read_value(inner, raw, declared.name, value_of(declared.type))
            if value is not None:
                values[declared.name] = value
            elif declared.required:
                is_complete = False
                if len(self.problems) == problems_before:
                    self.refuse(inner, "is needed")
        return declaration(**values) if is_complete else None

    def refuse_unknown(self, path: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
        known = list(known)
        for key in table:
            if key not in known:
                inner = f"{path}.{key}" if path else str(key)
                why = f"no such setting{did_you_mean(key, known)}"
                self.refuse(inner, f"{why} (allowed: {', '.join(known) or 'nothing'})")

    def refuse_unknown_variables(self, sections: Iterable[str]) -> None:
        """Variables of our sections that name no setting.  Others are left alone: a container orchestrator sets
        variables such as DITTOFS_SERVICE_HOST by itself."""
        prefixes = tuple(f"DITTOFS_{section.upper()}_" for section in sections)
        for variable in self.environment:
            if variable.startswith(prefixes) and variable not in self.known_variables:
                self.refuse(variable, f"no such setting{did_you_mean(variable, self.known_variables)}")


def write_table(table: msgspec.Struct, path: str, origins: Mapping[str, str]) -> str:
    """The lines of one table without its sub-tables; secrets masked, and a comment where flag or environment won."""
    lines = []
    for declared in msgspec.structs.fields(type(table)):
        if is_table(declared.type):
            continue
        inner = f"{path}.{declared.name}"
        value = getattr(table, declared.name)
        text = quoted(MASK) if is_secret(declared.name) and value else value_of(declared.type).write(value)
        origin = origins.get(inner, "")
        lines.append(f"{declared.name} = {text}" + (origin and f"  # from {origin}") + "\n")
    return "".join(lines)
