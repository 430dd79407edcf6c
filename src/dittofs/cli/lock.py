"""`dittofs lock`: who holds what, who waits and why, and taking a lock away."""

import sys
from typing import Annotated, Any

import typer

from dittofs.cli.failing import Failure
from dittofs.cli.options import ConfigFile, DataDirectory
from dittofs.cli.remote import AsJson, Remote, Url, in_path, remote_of
from dittofs.cli.tables import byte_range, file, owner, print_facts, print_json, print_table, since, when

app = typer.Typer(no_args_is_help=True, help="Look at locks and those who wait for them, and release one.")

LOCK_TITLES = ("ID", "STATE", "TYPE", "BYTES", "FOR", "OWNER", "FILE")
WAITER_TITLES = ("TICKET", "STATE", "TYPE", "BYTES", "WAITS", "OWNER", "FILE", "IN THE WAY")
PAGE = 1000


@app.command("ls")
def list_locks(
    config: ConfigFile = None,
    data: DataDirectory = None,
    url: Url = None,
    share: Annotated[str | None, typer.Option("--share", metavar="NAME", help="Only of this share.")] = None,
    path: Annotated[
        str | None, typer.Option("--path", metavar="PATH", help="Only of this file, as /export/a/b.")
    ] = None,
    client: Annotated[str | None, typer.Option("--client", metavar="ID", help="Only of this client.")] = None,
    owner_id: Annotated[str | None, typer.Option("--owner", metavar="ID", help="Only of this owner.")] = None,
    state: Annotated[str, typer.Option("--state", metavar="STATE", help="held, offered, pending or any.")] = "any",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List locks that are held, and requests that wait for one."""
    remote = remote_of(config, data, url)
    filters = {"share": share, "path": path, "client": client, "owner": owner_id, "state": state}
    locks, total = _locks(remote, limit, filters)
    waiters = _waiters(remote, share=share, client=client, path=path, owner_id=owner_id)
    if as_json:
        print_json({"locks": locks, "waiters": waiters, "total": total})
        return
    rows = [
        (
            one["id"],
            one["state"],
            one["type"],
            byte_range(one),
            since(one["acquired_at"]),
            owner(one["owner"]),
            file(one),
        )
        for one in locks
    ]
    print_table(LOCK_TITLES, rows, empty="No such lock is held.")
    if len(locks) == limit and total > limit:
        print(f"({total} locks in all; --limit shows more)")
    if waiters:
        print()
        print_table(WAITER_TITLES, [_waiter_row(one) for one in waiters], empty="")


@app.command()
def show(
    lock: Annotated[str, typer.Argument(metavar="ID", help="The number of a lock.")],
    config: ConfigFile = None,
    data: DataDirectory = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show everything about one lock."""
    remote = remote_of(config, data, url)
    found = remote.get(f"/locks/{in_path(lock)}")
    why = remote.get(f"/locks/{in_path(lock)}/why")["why"]
    if as_json:
        print_json({**found, "why": why})
        return
    print_facts(
        [
            ("lock", found["id"]),
            ("file", file(found)),
            ("bytes", byte_range(found)),
            ("type", found["type"]),
            ("state", found["state"]),
            ("owner", owner(found["owner"])),
            ("owner id", found["owner"]["id"]),
            ("client", found["owner"]["client"]),
            ("since", when(found["acquired_at"])),
            ("waited for it", "yes" if found["was_blocking"] else "no"),
            ("reclaimed", "yes" if found["is_reclaim"] else "no"),
            ("", why),
        ]
    )


@app.command()
def why(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="A ticket, the number of a lock, or the path of a file.")],
    config: ConfigFile = None,
    data: DataDirectory = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Say in a sentence why a request waits, or what a lock is there for."""
    remote = remote_of(config, data, url)
    sentences = _of_file(remote, what) if what.startswith("/") else [_of_number(remote, what)]
    if as_json:
        print_json({"why": sentences})
    else:
        print("\n".join(sentences))


@app.command()
def release(
    lock: Annotated[str, typer.Argument(metavar="ID", help="The number of a lock.")],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept in the audit log.")],
    config: ConfigFile = None,
    data: DataDirectory = None,
    url: Url = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take a lock away from its holder, who is not told.  Whoever waits for it gets it."""
    remote = remote_of(config, data, url)
    if not yes:
        confirm(remote.get(f"/locks/{in_path(lock)}/why")["why"] + "  Release it?")
    done = remote.post(f"/locks/{in_path(lock)}/release", reason=reason)
    if as_json:
        print_json(done)
        return
    for one in done["released"]:
        print(f"Released lock {one['id']} of {owner(one['owner'])} on {file(one)}.")
    print(done["warning"])


def confirm(question: str) -> None:
    """Raises Failure if nobody can be asked, Abort if he says no."""
    if not sys.stdin.isatty():
        raise Failure("there is nobody to ask: --yes does it without asking")
    typer.confirm(question, abort=True)


def _locks(remote: Remote, limit: int, filters: dict[str, str | None]) -> tuple[list[Any], int]:
    found: list[Any] = []
    cursor: str | None = ""
    total = 0
    while cursor is not None and len(found) < limit:
        page = remote.get("/locks", **filters, limit=min(PAGE, limit - len(found)), cursor=cursor)
        found += page["locks"]
        total, cursor = page["total"], page["next"]
    return found, total


def _waiters(
    remote: Remote, *, share: str | None, client: str | None, path: str | None, owner_id: str | None
) -> list[Any]:
    found = remote.get("/waiters", share=share, client=client, limit=PAGE)["waiters"]
    return [
        one
        for one in found
        if (path is None or one["path"] == path) and (owner_id is None or one["owner"]["id"] == owner_id)
    ]


def _waiter_row(one: dict[str, Any]) -> tuple[object, ...]:
    blockers = [owner(lock["owner"]) for lock in one["blockers"][:2]]
    more = len(one["blockers"]) - len(blockers) + len(one["behind"])
    in_the_way = ", ".join(blockers) + (f" and {more} more" if more else "")
    return (
        one["ticket"],
        one["state"],
        one["type"],
        byte_range({**one, "access": None, "deny": None}),
        since(one["waiting_since"]),
        owner(one["owner"]),
        file(one),
        in_the_way,
    )


def _of_number(remote: Remote, number: str) -> str:
    try:
        return str(remote.get(f"/waiters/{in_path(number)}/why")["why"])
    except Failure:
        return str(remote.get(f"/locks/{in_path(number)}/why")["why"])


def _of_file(remote: Remote, path: str) -> list[str]:
    about = remote.get("/file", path=path)
    if about["waiters"]:
        return [str(one["why"]) for one in about["waiters"]]
    if about["locks"]:
        return [str(remote.get(f"/locks/{one['id']}/why")["why"]) for one in about["locks"][:20]]
    return [f"Nobody holds or awaits a lock on {path}."]
