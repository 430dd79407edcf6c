"""The reference of the command line, made from the commands themselves: docs/commands.md.

python -m dittofs.cli.reference > docs/commands.md
"""

import sys
from collections.abc import Iterator
from typing import Any

from dittofs.cli.main import app

HEAD = """# Commands

Made by `python -m dittofs.cli.reference`; a test compares.  Exit status of every command: 0 done, 1 it failed, 2 it was
asked for wrongly, unless it says otherwise.  `--install-completion` teaches your shell to complete them.
"""


def reference() -> str:
    """All commands, in the order of `dittofs --help`."""
    import typer.main

    command: Any = typer.main.get_command(app)
    return HEAD + "".join(_command(command, "dittofs"))


def _command(command: Any, path: str) -> Iterator[str]:
    children = getattr(command, "commands", None)
    if children is not None:
        for name, child in children.items():
            yield from _command(child, f"{path} {name}")
        return
    arguments = [part for part in command.params if part.param_type_name == "argument"]
    options = [part for part in command.params if part.param_type_name == "option" and not part.hidden]
    usage = " ".join([path, *(["[OPTIONS]"] if options else []), *(_shown(part) for part in arguments)])
    yield f"\n## `{path}`\n\n```\n{usage}\n```\n\n{_text(command.help)}\n"
    rows = [(f"`{_shown(part)}`", part.help) for part in arguments] + [(_option(part), part.help) for part in options]
    if rows:
        yield "\n| | |\n|---|---|\n"
        yield from (f"| {name} | {_text(text).replace(chr(10), ' ')} |\n" for name, text in rows)


def _shown(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _option(option: Any) -> str:
    value = "" if option.is_flag else f" {option.metavar or 'VALUE'}"
    return ", ".join(f"`{name}{value}`" for name in option.opts)


def _text(text: str | None) -> str:
    lines = [line.strip() for line in (text or "").strip().splitlines()]
    return "\n".join(lines).replace("|", "\\|").replace("\f", "")


if __name__ == "__main__":
    sys.stdout.write(reference())
