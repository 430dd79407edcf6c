"""`dittofs status`, `top`, `audit`, `reload`: the server as a whole."""

import time
from typing import Annotated, Any

import typer

from dittofs.cli.failing import Failure
from dittofs.cli.options import ConfigFile, DataDirectory
from dittofs.cli.remote import AsJson, Remote, Url, remote_of
from dittofs.cli.tables import print_facts, print_json, print_table, since, size, span, when


def status(config: ConfigFile = None, data: DataDirectory = None, url: Url = None, as_json: AsJson = False) -> None:
    """Show the running server at a glance: since when, what it serves, locks, grace and the health of its stores.

    Exit status 0: it is ready; 1: it is not, or does not run.
    """
    remote = remote_of(config, data, url)
    found, health = remote.get("/status"), remote.get("/health")
    if as_json:
        print_json({**found, "is_ready": health["is_ready"], "problems": health["problems"]})
    else:
        print_facts(_facts(found, health))
    if not health["is_ready"]:
        raise Failure("; ".join(health["problems"]))


def _facts(found: dict[str, Any], health: dict[str, Any]) -> list[tuple[str, object]]:
    stores = ", ".join(f"{one['name']} ({one['kind']}): {one['detail']}" for one in health["stores"])
    grace = found["grace_seconds"]
    return [
        ("version", found["version"]),
        ("running for", f"{since(found['started_at'])}, after a {found['started_after']}"),
        ("node", f"{found['node']}, epoch {found['epoch']}"),
        ("control plane", found["endpoints"].get("api")),
        ("metrics", found["endpoints"].get("metrics")),
        ("shares", found["shares"]),
        ("clients", f"{found['clients']} with locks, {found['connections']} connections"),
        ("locks", f"{found['locks']} held, {found['waiting']} waiting, {found['deadlocks']} deadlocks lately"),
        ("grace", f"for {span(grace)} at most" if grace else "none"),
        ("requests", f"{found['requests']:,}"),
        ("content", f"{size(found['bytes_read'])} read, {size(found['bytes_written'])} written"),
        ("stores", stores),
    ]


def top(
    config: ConfigFile = None,
    data: DataDirectory = None,
    url: Url = None,
    interval: Annotated[float, typer.Option("--interval", metavar="SECONDS", min=0.1, help="Between two looks.")] = 1.0,
    count: Annotated[int, typer.Option("--count", metavar="N", min=0, help="Stop after so many; 0: never.")] = 0,
) -> None:
    """Watch the server live: requests, bytes, locks and those who wait the longest.  Control-C ends it."""
    from rich.console import Console
    from rich.live import Live

    remote = remote_of(config, data, url)
    console = Console()
    before = remote.get("/status")
    shown = 0
    with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
        while True:
            time.sleep(interval)
            now = remote.get("/status")
            live.update(_screen(remote, before, now), refresh=True)
            before = now
            shown += 1
            if shown == count:
                return


def _screen(remote: Remote, before: dict[str, Any], now: dict[str, Any]) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    seconds = max(now["now"] - before["now"], 0.001)

    def rate(key: str) -> float:
        return float(max(0.0, (now[key] - before[key]) / seconds))

    head = Text(
        f"DittoFS {now['version']}  up {since(now['started_at'])}  {now['connections']} connections  "
        f"loop lag {now['loop_lag_seconds'] * 1000:.1f} ms\n"
        f"{rate('requests'):,.0f} requests/s  {size(rate('bytes_read'))}/s read  "
        f"{size(rate('bytes_written'))}/s written\n"
        f"{now['locks']} locks  {now['waiting']} waiting"
        + (f"  grace for {span(now['grace_seconds'])}" if now["grace_seconds"] else "")
    )
    table = Table("waits", "who", "why", box=None, expand=True)
    for one in remote.get("/waiters", limit=20)["waiters"]:
        owner = one["owner"]
        table.add_row(since(one["waiting_since"]), Text(f"{owner['name']}/{owner['process']}"), Text(one["why"]))
    return Group(head, Text(""), table) if table.row_count else Group(head, Text("Nobody waits."))


def audit(
    config: ConfigFile = None,
    data: DataDirectory = None,
    url: Url = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="At most so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List what operators did, the newest first."""
    found = remote_of(config, data, url).get("/audit", limit=limit)
    if as_json:
        print_json(found)
        return
    rows = [
        (when(one["at"]), one["action"], one["target"], one["reason"], one["outcome"], one["actor"])
        for one in found["entries"]
    ]
    titles = ("WHEN", "ACTION", "TARGET", "REASON", "OUTCOME", "WHO")
    print_table(titles, rows, empty="No operator has done anything yet.")


def reload(config: ConfigFile = None, data: DataDirectory = None, url: Url = None, as_json: AsJson = False) -> None:
    """Let the running server read its configuration again: added, changed and removed shares are taken up at once.

    Other shares are not disturbed.  Settings that need a restart are named.
    """
    done = remote_of(config, data, url).post("/reload")
    if as_json:
        print_json(done)
        return
    for name in ("added", "changed", "removed"):
        for share in done[name]:
            print(f"{name} {share}")
    for setting in done["ignored"]:
        print(f"{setting} changed, but is taken up by a restart only")
    if not any(done.values()):
        print("Nothing has changed.")
