"""Imports point downwards only: this table is the architecture (ARCHITECTURE.md has the reasons)."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
EVERYTHING = ("",)

# What the rules of files and locks may know of stores: the two interfaces, and records seen through a view.
STORE_SEAM = ("stores.api", "stores.tables")
SERVICES = ("model", "locks", "files", "shares", "clients")

# Package or module, and what it may import besides itself.  The longest name that fits counts.
ALLOWED: dict[str, tuple[str, ...]] = {
    "model": (),
    "xdr": (),
    "metrics": (),
    "logs": (),
    "declared": (),
    "config": ("declared",),
    "loading": ("declared", "config"),
    "stores": ("model",),
    "security": ("model",),
    "rpc": ("xdr", "model"),
    # Replies arrive as the buffers that XDR made, and leave without being joined.
    "net": ("rpc", "xdr", "model"),
    "locks": ("model", *STORE_SEAM),
    "files": ("model", "locks", *STORE_SEAM),
    "clients": ("model", "locks", *STORE_SEAM),
    # A share is a tree of files together with who may do what in it.
    "shares": ("model", "locks", "files", *STORE_SEAM),
    # The view is in the signature of every metadata procedure.
    "protocols": ("xdr", "rpc", "stores.tables", *SERVICES),
    # The names of files, and what is in a share, are read through a view too.
    # Content that is backed up may fail to be read, which a store tells in its own words.
    "control": ("stores.tables", "stores.api", "backups.format", *SERVICES),
    # What a backup looks like, and how a share is made of one again.
    "backups": ("model", "files", "shares", *STORE_SEAM),
    "backups.format": (),
    # People and tests call a server through it: it speaks the protocols' own declarations.
    "client": ("xdr", "rpc", "net", "model", "protocols"),
    # A backup is looked through while it arrives.
    "cli": ("config", "loading", "logs", "client", "backups.format"),
    "cli.serve": ("config", "loading", "logs", "server"),
    "cli.check": ("config", "loading", "offline"),
    "cli.backup": ("config", "loading", "offline", "backups"),
    "__main__": ("cli",),
    # The composition root, its parts (port 111, control plane, metrics), and its small sister for data nobody serves.
    "server": EVERYTHING,
    "controlling": EVERYTHING,
    "observing": EVERYTHING,
    "reloading": EVERYTHING,
    "announcing": EVERYTHING,
    "offline": EVERYTHING,
    # Calls to clients: the port mapper's questions over our sockets, given to the protocols that call back.
    "reaching": EVERYTHING,
    # The client registry and the status monitor with their settings, timers and file.
    "watching": EVERYTHING,
    "testing": EVERYTHING,
}

# Settings and counters are for whoever does something: never for plain functions.
IMPURE_MAY_IMPORT = ("config", "metrics")

# Plain functions: whatever they need, time included, is given to them.
PURE = ("xdr", "rpc", "locks", "model", "files.access", "protocols.nfs4.state", "cli.mounting")
IMPURE_EXCEPTIONS = ("rpc.dispatch", "locks.service", "locks.agreeing")
FORBIDDEN_IN_PURE = {"asyncio", "socket", "time", "random", "os", "logging", "threading", "structlog"}


def is_within(module: str, package: str) -> bool:
    return package == "" or module == package or module.startswith(package + ".")


def is_pure(module: str) -> bool:
    is_exception = any(is_within(module, one) for one in IMPURE_EXCEPTIONS)
    return not is_exception and any(is_within(module, one) for one in PURE)


def imported(tree: ast.AST, modules: set[str]) -> list[tuple[int, str]]:
    """Every import, also within functions and under TYPE_CHECKING: line, and the module that it reaches."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parent = "." * node.level + (node.module or "")
            for alias in node.names:
                inner = f"{parent}.{alias.name}"
                found.append((node.lineno, inner if inner in modules else parent))
    return found


def own_part(module: str) -> str:
    """What counts as "itself": the top-level package, but one protocol does not count as another."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "protocols" else parts[0]


def violations(module: str, source: str, modules: set[str]) -> list[str]:
    """What is wrong with the imports of one module; names are without the leading `dittofs.`."""
    rule = max((name for name in ALLOWED if is_within(module, name)), key=len, default=None)
    if rule is None:
        return [f"{module}: not in the import table: add it, with its place"]
    allowed = (own_part(module), *ALLOWED[rule], *(() if is_pure(module) else IMPURE_MAY_IMPORT))
    wrong = []
    for line, target in imported(ast.parse(source), {f"dittofs.{name}" for name in modules}):
        if target.startswith("."):
            wrong.append(f"{module}:{line}: relative import")
        elif is_within(target, "dittofs") and target != "dittofs":
            name = target.removeprefix("dittofs.")
            if not any(is_within(name, one) for one in allowed):
                wrong.append(f"{module}:{line}: {rule} must not import {name}")
        elif is_pure(module) and target.split(".")[0] in FORBIDDEN_IN_PURE:
            wrong.append(f"{module}:{line}: a pure module must not import {target}")
    return wrong


def all_modules() -> dict[str, Path]:
    found = {}
    for path in sorted((SOURCE / "dittofs").rglob("*.py")):
        parts = path.relative_to(SOURCE / "dittofs").with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    del found[""]
    return found


def test_every_import_points_downwards() -> None:
    modules = all_modules()
    assert len(modules) > 20, "the source was not found"
    wrong = [line for name, path in modules.items() for line in violations(name, path.read_text(), set(modules))]
    assert not wrong, "\n".join(wrong)


def test_init_files_hold_only_a_docstring() -> None:
    """STYLE: no code in __init__.py; the package's own has the version."""
    for path in (SOURCE / "dittofs").rglob("__init__.py"):
        body = ast.parse(path.read_text()).body
        allowed = 2 if path.parent.name == "dittofs" else 1
        assert len(body) == allowed, path
        assert ast.get_docstring(ast.parse(path.read_text())), path


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("xdr.types", "import dittofs.rpc.messages", "xdr must not import rpc.messages"),
        ("stores.metadata.memory", "from dittofs.files import access", "stores must not import files.access"),
        ("files.io", "from dittofs.stores.metadata.memory import X", "files must not import stores.metadata.memory"),
        ("files.io", "def f():\n    import dittofs.net.tcp", "2: files must not import net.tcp"),
        ("protocols.nlm.types", "from dittofs.protocols.nfs3.types import fh", "must not import protocols.nfs3.types"),
        ("protocols.nfs3.types", "from dittofs.net.tcp import X", "protocols must not import net.tcp"),
        ("control.app", "from dittofs.protocols import nfs3", "control must not import protocols.nfs3"),
        ("net.tcp", "from dittofs import server", "net must not import server"),
        ("cli.config", "from dittofs import server", "cli must not import server"),
        ("locks.table", "import time", "a pure module must not import time"),
        ("rpc.replay", "from os import path", "a pure module must not import os"),
        ("xdr.types", "from dittofs.config import Settings", "xdr must not import config"),
        ("files.io", "from . import access", "relative import"),
        ("novelty", "", "not in the import table"),
    ],
)
def test_a_violation_is_found(module: str, source: str, expected: str) -> None:
    """The rule itself can fail."""
    modules = {"files.access", "protocols.nfs3", "server"}
    assert expected in "\n".join(violations(module, source, modules))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("files.io", "from dittofs.stores.api import ContentStore\nfrom dittofs.config import Settings"),
        ("protocols.nfs3.procedures", "from dittofs.protocols.nfs3.types import X\nfrom dittofs.files import access"),
        ("rpc.dispatch", "import asyncio, time"),
        ("locks.service", "import asyncio\nfrom dittofs.metrics import X"),
        ("server", "from dittofs.net.tcp import X\nimport dittofs.protocols.nfs3.types"),
        ("cli.serve", "from dittofs import server"),
        ("model.ids", "from typing import NewType\nfrom dittofs import __version__"),
    ],
)
def test_what_is_allowed_passes(module: str, source: str) -> None:
    assert violations(module, source, {"files.access", "server"}) == []
