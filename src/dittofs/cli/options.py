"""Options that several commands take, and how they become settings."""

from pathlib import Path
from typing import Annotated

import typer

from dittofs.config import Settings
from dittofs.loading import load

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", envvar="DITTOFS_CONFIG", help="Configuration in TOML."),
]
DataDirectory = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Where stores and state are kept.  [default: the user's data directory]",
    ),
]


def settings_of(config: Path | None, **flags: str | list[str] | None) -> Settings:
    """Flags over environment over file.  A flag is given as `server__port=…`; None: it was not used."""
    given = {name.replace("__", "."): value for name, value in flags.items() if value not in (None, [])}
    return load(config, flags=given)
