"""From a file, the environment and flags to `Settings`, and from there to text [OPS-2].

Flags win over the environment, the environment over the file.  Anything unknown or out of bounds is refused with
the full name of the setting and what is allowed.  Nothing here opens a store or a socket.
"""

import os
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from dittofs.config import (
    ApiSettings,
    ClientSettings,
    DirectoryOptions,
    EmbeddedOptions,
    LimitSettings,
    LockSettings,
    LogSettings,
    MemoryOptions,
    MetricsSettings,
    NsmSettings,
    PostgresOptions,
    ServerSettings,
    Settings,
    ShareSettings,
    StoreSettings,
)
from dittofs.declared import Anything, Reader, Text, did_you_mean, quoted, quoted_key, write_table

METADATA_KINDS: Mapping[str, type[msgspec.Struct]] = {
    "memory": MemoryOptions,
    "embedded": EmbeddedOptions,
    "postgres": PostgresOptions,
}
CONTENT_KINDS: Mapping[str, type[msgspec.Struct]] = {"memory": MemoryOptions, "directory": DirectoryOptions}
KINDS: Mapping[str, type[msgspec.Struct]] = {**METADATA_KINDS, **CONTENT_KINDS}
FUTURE_KINDS = ("s3",)
OWN_CLASS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")

SECTIONS: Mapping[str, type[msgspec.Struct]] = {
    "server": ServerSettings,
    "log": LogSettings,
    "locks": LockSettings,
    "clients": ClientSettings,
    "nsm": NsmSettings,
    "limits": LimitSettings,
    "api": ApiSettings,
    "metrics": MetricsSettings,
}
DEFAULT_STORES: Mapping[str, Any] = {"meta": {"kind": "embedded"}, "files": {"kind": "directory"}}
DEFAULT_SHARES: tuple[Mapping[str, Any], ...] = ({"name": "/export"},)


class ConfigError(Exception):
    """The configuration cannot be used; `problems` has one line for each reason."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def default_data_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a user's data lives if he does not say: the platform's own convention."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "dittofs"
    given = environment.get("XDG_DATA_HOME", "")
    # The XDG rule: a relative path is to be ignored.
    return (Path(given) if given.startswith("/") else Path.home() / ".local" / "share") / "dittofs"


def load(
    file: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, str | list[str]] | None = None,
) -> Settings:
    """The settings of a file (or none), the environment and flags such as `{"server.port": "2049"}`.

    Raises `ConfigError` with everything that was wrong.
    """
    environment = os.environ if environment is None else environment
    reader = Reader(environment, flags or {})
    raw = _read_file(file) if file else {}
    if isinstance(server := raw.setdefault("server", {}), dict):
        server.setdefault("data", str(default_data_directory(environment)))
    reader.refuse_unknown("", raw, [*SECTIONS, "stores", "shares"])
    sections: dict[str, Any] = {
        name: reader.read_table(kind, raw.get(name, {}), name) for name, kind in SECTIONS.items()
    }
    data = _data_directory(sections["server"], file if "server.data" not in reader.origins else None)
    stores = _read_stores(reader, raw.get("stores", DEFAULT_STORES), data)
    shares = _read_shares(reader, raw.get("shares", DEFAULT_SHARES))
    _check_references(reader, stores, shares)
    _check_paths(reader, stores)
    reader.refuse_unknown_variables([*SECTIONS, "stores", "shares"])
    if reader.problems:
        raise ConfigError([f"{file}: {problem}" if file else problem for problem in reader.problems])
    sections["server"] = msgspec.structs.replace(sections["server"], data=data)
    return Settings(**sections, stores=stores, shares=shares, origins=reader.origins)


def _read_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([f"{file}: cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{file}: is not UTF-8 text"]) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{file}: is not valid TOML: {error}"]) from error


def _data_directory(server: Any, file: Path | None) -> Path:
    """Absolute.  A relative path counts from the file that says it, else from the current directory."""
    return Path(os.path.abspath((file.parent if file else Path()) / (server.data if server else "")))


def _read_stores(reader: Reader, raw: Any, data: Path) -> dict[str, StoreSettings]:
    if not isinstance(raw, Mapping):
        reader.refuse("stores", "must be tables such as [stores.meta]")
        return {}
    stores = {name: _read_store(reader, name, table, data) for name, table in raw.items()}
    return {name: store for name, store in stores.items() if store is not None}


def _read_store(reader: Reader, name: str, table: Any, data: Path) -> StoreSettings | None:
    path = f"stores.{name}"
    if not isinstance(table, Mapping):
        reader.refuse(path, "must be a table of settings with at least a kind", table)
        return None
    known = f"memory, embedded, postgres, directory, or a class of your own as {quoted('package.module:Class')}"
    kind = reader.read_value(f"{path}.kind", table, "kind", Text(f"one of {known}"))
    if kind is None:
        if "kind" not in table:
            reader.refuse(f"{path}.kind", f"is needed: {known}")
        return None
    options = {key: value for key, value in table.items() if key != "kind"}
    if kind in KINDS:
        if "path" in KINDS[kind].__struct_fields__:
            options.setdefault("path", name)
        declared = reader.read_table(KINDS[kind], options, path)
        options = msgspec.structs.asdict(declared) if declared else {}
    elif kind in FUTURE_KINDS:
        reader.refuse(f"{path}.kind", f"this version has no {kind} store yet; use {known}", kind)
        return None
    elif OWN_CLASS.fullmatch(kind):
        options = _own_options(reader, path, options)
    else:
        reader.refuse(f"{path}.kind", f"must be one of {known}{did_you_mean(kind, KINDS)}", kind)
        return None
    if "path" in options:
        options["path"] = Path(os.path.abspath(data / options["path"]))
    return StoreSettings(name=name, kind=kind, options=options)


def _own_options(reader: Reader, path: str, options: dict[str, Any]) -> dict[str, Any]:
    """A class of the user's own gets every key as it stands; a variable may replace one that the file has."""
    values = {}
    for key, value in options.items():
        given = reader.read_value(f"{path}.{key}", options, key, Anything(like=value))
        values[key] = value if given is None else given
    return values


def _read_shares(reader: Reader, raw: Any) -> tuple[ShareSettings, ...]:
    if not isinstance(raw, list | tuple) or not raw:
        reader.refuse("shares", "must be one or more tables, each headed [[shares]]")
        return ()
    shares = [reader.read_table(ShareSettings, table, f"shares[{index}]") for index, table in enumerate(raw)]
    seen: dict[str, int] = {}
    for index, share in enumerate(shares):
        if share is not None:
            first = seen.setdefault(share.name, index)
            if first != index:
                reader.refuse(f"shares[{index}].name", f"shares[{first}] has that name already", share.name)
    return tuple(share for share in shares if share is not None)


def _check_references(reader: Reader, stores: Mapping[str, StoreSettings], shares: tuple[ShareSettings, ...]) -> None:
    """Each share names stores that exist and keep the right thing."""
    for index, share in enumerate(shares):
        for role, name, kinds in (
            ("metadata", share.metadata, METADATA_KINDS),
            ("content", share.content, CONTENT_KINDS),
        ):
            path = f"shares[{index}].{role}"
            store = stores.get(name)
            if store is None:
                # A store that was refused itself is named once, there.
                if not any(problem.startswith(f"stores.{name}.") for problem in reader.problems):
                    listed = ", ".join(stores) or "none is configured"
                    reader.refuse(path, f"no such store{did_you_mean(name, stores)} (there are: {listed})", name)
            elif store.kind not in kinds and not store.is_own_class:
                allowed = f"{', '.join(kinds)} or a class of your own"
                reader.refuse(path, f"stores.{name} is of kind {store.kind}; {role} needs {allowed}", name)


def _check_paths(reader: Reader, stores: Mapping[str, StoreSettings]) -> None:
    """Two stores in one directory, or one inside the other, would overwrite each other."""
    placed = [(name, store.options["path"]) for name, store in stores.items() if "path" in store.options]
    for index, (name, path) in enumerate(placed):
        for earlier, other in placed[:index]:
            if path.is_relative_to(other) or other.is_relative_to(path):
                reader.refuse(f"stores.{name}.path", f"stores.{earlier} is kept there as well ({other})", str(path))


def show(settings: Settings) -> str:
    """The settings as TOML that `load` reads back; secrets masked, and who gave what in comments."""
    parts = []
    for name in SECTIONS:
        section = getattr(settings, name)
        if name == "clients":
            parts += [
                _part(f"[clients.{inner}]", getattr(section, inner), f"clients.{inner}", settings)
                for inner in section.__struct_fields__
            ]
        else:
            parts.append(_part(f"[{name}]", section, name, settings))
    parts += [_show_store(store, settings.origins) for store in settings.stores.values()]
    for index, share in enumerate(settings.shares):
        parts.append(_part("[[shares]]", share, f"shares[{index}]", settings))
    return "\n".join(parts)


def _part(title: str, table: msgspec.Struct, path: str, settings: Settings) -> str:
    return f"{title}\n{write_table(table, path, settings.origins)}"


def _show_store(store: StoreSettings, origins: Mapping[str, str]) -> str:
    lines = [f"[stores.{quoted_key(store.name)}]\n"]
    for key, value in {"kind": store.kind, **store.options}.items():
        origin = origins.get(f"stores.{store.name}.{key}", "")
        lines.append(Anything().write_item(key, value) + (origin and f"  # from {origin}") + "\n")
    return "".join(lines)
