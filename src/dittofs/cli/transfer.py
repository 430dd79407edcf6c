"""`dittofs import` and `dittofs export`: whole trees into a share and out of it, while it is in use."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from dittofs.cli.failing import Failure
from dittofs.cli.options import ConfigFile, DataDirectory, settings_of
from dittofs.cli.remote import ENDPOINTS_NAME
from dittofs.cli.tables import size

if TYPE_CHECKING:
    from dittofs.client.copying import Progress

Server = Annotated[
    str | None,
    typer.Option("--server", metavar="HOST:PORT", help="An NFS server.  [default: the one of the data directory]"),
]
PROBLEMS_SHOWN = 20


def import_tree(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="What to copy.", exists=True, file_okay=False)],
    share: Annotated[str, typer.Argument(metavar="/export", help="The share, or a directory in it.")],
    config: ConfigFile = None,
    data: DataDirectory = None,
    server: Server = None,
) -> None:
    """Copy everything in DIR into a share: content with its holes, hard links, owners, modes, times.

    The server must run.  To keep owners, be root and let the share not squash root meanwhile (squash = "none"; dittofs
    reload takes it up).  What was interrupted is started again: files that are there already are not copied twice.
    """
    from dittofs.client.copying import Importer

    _copy(
        config, data, server, share, lambda client, tell, root: Importer(client, tell).run(os.fsencode(directory), root)
    )


def export_tree(
    share: Annotated[str, typer.Argument(metavar="/export", help="The share, or a directory in it.")],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to; made if it is not there.")],
    config: ConfigFile = None,
    data: DataDirectory = None,
    server: Server = None,
) -> None:
    """Copy everything in a share into DIR: content with its holes, hard links, owners, modes, times.

    The server must run.  What was interrupted is started again: files that are there already are not copied twice.
    """
    from dittofs.client.copying import Exporter

    _copy(
        config, data, server, share, lambda client, tell, root: Exporter(client, tell).run(root, os.fsencode(directory))
    )


def _copy(config: Path | None, data: str | None, server: str | None, share: str, run: Any) -> None:
    from dittofs.client.copying import FAILURES, mounted

    address, port = _address(config, data, server)
    try:
        with mounted(address, port, share) as (client, root), _Bar() as bar:
            progress = run(client, bar.show, root)
    except FAILURES as error:
        raise Failure(f"{error} (started again, it goes on where it stopped)") from None
    _report(progress)


def _address(config: Path | None, data: str | None, server: str | None) -> tuple[str, int]:
    if server is not None:
        host, _, port = server.rpartition(":")
        if not host or not port.isdecimal():
            raise typer.BadParameter(f"{server!r} is not HOST:PORT")
        return host.strip("[]"), int(port)
    directory = settings_of(config, server__data=data).server.data
    try:
        found = json.loads((directory / ENDPOINTS_NAME).read_text())["nfs"]
    except (OSError, ValueError, KeyError):
        raise Failure(f"no server runs with the data in {directory}: start one with dittofs serve") from None
    host, _, port = str(found).rpartition(":")
    return host.strip("[]"), int(port)


def _report(progress: "Progress") -> None:
    print(
        f"{progress.files} files, {progress.directories} directories, {progress.links} hard links, "
        f"{size(progress.bytes)}; {progress.skipped} were there already."
    )
    for problem in progress.problems[:PROBLEMS_SHOWN]:
        print(problem)
    if progress.unowned:
        print(
            f"The owners of {progress.unowned} of them are not kept: only root gives files away, "
            'and a share squashes root unless its squash is "none".'
        )
    if progress.problems:
        raise Failure(f"{len(progress.problems)} problems")


class _Bar:
    """How far it is, where somebody looks at a terminal."""

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._shown = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._shown.start()
        self._task = self._shown.add_task("…")
        return self

    def __exit__(self, *exception: object) -> None:
        self._shown.stop()

    def show(self, progress: "Progress") -> None:
        from rich.markup import escape

        done = f"{progress.files + progress.skipped + progress.links} files, {size(progress.bytes)}"
        self._shown.update(self._task, description=f"{done}  {escape(progress.at[-60:])}")
