"""`dittofs client ls|show|forget`: who is there, and forgetting one that will not come back."""

from typing import Annotated, Any

import typer

from dittofs.cli.failing import Failure
from dittofs.cli.lock import confirm
from dittofs.cli.options import ConfigFile, DataDirectory
from dittofs.cli.remote import AsJson, Remote, Url, in_path, remote_of
from dittofs.cli.tables import print_facts, print_json, print_table, since

TITLES = ("CLIENT", "ADAPTER", "ADDRESS", "LOCKS", "WAITING", "CONNECTIONS", "SEEN", "MOUNTS", "TROUBLE")

Who = Annotated[str, typer.Argument(metavar="CLIENT", help="Its id, its name or its address.")]


def list_clients(
    config: ConfigFile = None, data: DataDirectory = None, url: Url = None, as_json: AsJson = False
) -> None:
    """List everybody who has locks, mounts or connections."""
    found = remote_of(config, data, url).get("/clients")
    if as_json:
        print_json(found)
        return
    rows = [
        (
            one["name"],
            one["adapter"],
            one["address"],
            one["locks"],
            one["waiting"],
            one["connections"],
            since(one["last_seen"]),
            ", ".join(one["mounts"]),
            one["trouble"],
        )
        for one in found["clients"]
    ]
    print_table(TITLES, rows, empty="No client is known.")


def show(
    client: Who, config: ConfigFile = None, data: DataDirectory = None, url: Url = None, as_json: AsJson = False
) -> None:
    """Show one client and what it has."""
    remote = remote_of(config, data, url)
    found = find(remote, client)
    if as_json:
        print_json(found)
        return
    print_facts([(name.replace("_", " "), value) for name, value in found.items() if not name.endswith("_seen")])
    print_facts([("first seen", since(found["first_seen"])), ("last seen ", since(found["last_seen"]))])


def forget(
    client: Who,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept in the audit log.")],
    config: ConfigFile = None,
    data: DataDirectory = None,
    url: Url = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Forget a client and release all its locks, as if it had rebooted.  It is not told."""
    remote = remote_of(config, data, url)
    found = find(remote, client)
    if not yes:
        confirm(f"{found['name']} at {found['address']} loses its {found['locks']} locks.  Forget it?")
    done = remote.post(f"/forget/{in_path(found['adapter'])}/{in_path(found['id'])}", reason=reason)
    if as_json:
        print_json(done)
        return
    print(f"Forgot {found['name']} at {found['address']}, and released {len(done['released'])} locks.")
    print(done["warning"])


def find(remote: Remote, text: str) -> dict[str, Any]:
    """The one client that is meant.  Raises Failure."""
    clients: list[dict[str, Any]] = remote.get("/clients")["clients"]
    for key in ("id", "name", "address"):
        found = [one for one in clients if one[key] == text]
        if len(found) > 1:
            raise Failure(
                f"{text} is {len(found)} clients: give its id, one of {', '.join(one['id'] for one in found)}"
            )
        if found:
            return found[0]
    raise Failure(f"no client {text} is known (dittofs client ls lists them)")
