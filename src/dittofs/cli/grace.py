"""`dittofs grace`: how long still, whom it waits for, and ending it."""

from typing import Annotated

import typer

from dittofs.cli.lock import confirm
from dittofs.cli.options import ConfigFile, DataDirectory
from dittofs.cli.remote import AsJson, Url, remote_of
from dittofs.cli.tables import print_json, print_table, span

app = typer.Typer(no_args_is_help=True, help="Look at the grace period after a restart, or end it.")


@app.command()
def status(config: ConfigFile = None, data: DataDirectory = None, url: Url = None, as_json: AsJson = False) -> None:
    """Show which shares are in grace, how long still, and which clients have not come back."""
    found = remote_of(config, data, url).get("/grace")
    if as_json:
        print_json(found)
        return
    if not found["is_active"]:
        print("No share is in grace.")
    for share in found["shares"]:
        print(f"{share['share']} is in grace for {span(share['remaining_seconds'])} at most.  It waits for:")
        rows = [(one["name"], one["address"], one["locks"]) for one in share["roster"]]
        print_table(("CLIENT", "ADDRESS", "LOCKS"), rows, empty="nobody")


@app.command()
def end(
    share: Annotated[str, typer.Argument(metavar="SHARE", help="The name of a share, such as /export.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept in the audit log.")],
    config: ConfigFile = None,
    data: DataDirectory = None,
    url: Url = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """End the grace of a share now.  What was not reclaimed is dropped: clients that come later lose those locks."""
    remote = remote_of(config, data, url)
    if not yes:
        confirm(f"Locks of {share} that were not reclaimed are lost.  End its grace?")
    done = remote.post("/grace/end", share=share, reason=reason)
    if as_json:
        print_json(done)
    else:
        print(f"Grace of {share} is over.")
