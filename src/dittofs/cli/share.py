"""`dittofs share`: what is exported, and how much is in it."""

from typing import Annotated

import typer

from dittofs.cli.options import ConfigFile, DataDirectory
from dittofs.cli.remote import AsJson, Url, in_path, remote_of
from dittofs.cli.tables import print_facts, print_json, print_table, size

app = typer.Typer(no_args_is_help=True, help="Look at shares.")

TITLES = ("SHARE", "METADATA", "CONTENT", "MODE", "SQUASH", "LOCKS", "WAITING", "GRACE", "AVAILABLE")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a share, such as /export.")]


@app.command("ls")
def list_shares(
    config: ConfigFile = None, data: DataDirectory = None, url: Url = None, as_json: AsJson = False
) -> None:
    """List all shares."""
    found = remote_of(config, data, url).get("/shares")
    if as_json:
        print_json(found)
        return
    rows = [
        (
            one["name"],
            one["metadata"],
            one["content"],
            "read-only" if one["read_only"] else one["durability"],
            one["squash"],
            one["shared"] + one["exclusive"] + one["reservations"],
            one["waiting"],
            "yes" if one["in_grace"] else "no",
            size(one["available_bytes"]),
        )
        for one in found["shares"]
    ]
    print_table(TITLES, rows, empty="Nothing is shared.")


@app.command()
def show(
    name: Name, config: ConfigFile = None, data: DataDirectory = None, url: Url = None, as_json: AsJson = False
) -> None:
    """Show one share and who may use it."""
    found = remote_of(config, data, url).get(f"/shares/{in_path(name.lstrip('/'))}")
    if as_json:
        print_json(found)
    else:
        print_facts(
            [
                (key.replace("_", " "), ", ".join(value) if isinstance(value, list) else value)
                for key, value in found.items()
            ]
        )


@app.command()
def usage(
    name: Name, config: ConfigFile = None, data: DataDirectory = None, url: Url = None, as_json: AsJson = False
) -> None:
    """Count the files and bytes of a share by walking its tree."""
    found = remote_of(config, data, url).get(f"/usage/{in_path(name.lstrip('/'))}")
    if as_json:
        print_json(found)
        return
    print_facts(
        [
            ("files", f"{found['files']:,}"),
            ("directories", f"{found['directories']:,}"),
            ("others", f"{found['others']:,}"),
            ("content", size(found["bytes"])),
            ("on the medium", size(found["used_bytes"])),
            ("complete", "yes" if found["is_complete"] else "no: there are more than one question looks at"),
        ]
    )
