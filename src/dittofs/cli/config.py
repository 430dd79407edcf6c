"""`dittofs config`: look at settings before they are used."""

import sys

import typer

from dittofs.cli.options import ConfigFile, DataDirectory, settings_of
from dittofs.loading import show as show_settings

app = typer.Typer(no_args_is_help=True, help="Check or show the configuration.")


@app.command()
def check(config: ConfigFile = None, data: DataDirectory = None) -> None:
    """Read the configuration and name everything that is wrong with it.

    Nothing is opened and nothing is changed.  Exit status 0: it can be used; 2: it cannot.
    """
    settings = settings_of(config, server__data=data)
    shares = ", ".join(share.name for share in settings.shares)
    print(f"{config or 'The configuration'} is good: port {settings.server.port}, shares {shares}.")


@app.command()
def show(config: ConfigFile = None, data: DataDirectory = None) -> None:
    """Print the settings that are in force, as TOML: file, environment and defaults together.

    Secrets are masked.  A comment says which variable or flag a value came from.
    """
    sys.stdout.write(show_settings(settings_of(config, server__data=data)))
