"""`dittofs backup` and `dittofs restore`: one moment of a share as a file, and back."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, Self

import typer

from dittofs.cli.failing import Failure
from dittofs.cli.options import ConfigFile, DataDirectory, settings_of
from dittofs.cli.remote import Url, in_path, remote_of
from dittofs.cli.tables import size, when

SHOWN_EVERY_BYTES = 4 << 20


def backup(
    share: Annotated[str, typer.Argument(metavar="/export", help="The share.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; must not be there yet.", dir_okay=False)],
    config: ConfigFile = None,
    data: DataDirectory = None,
    url: Url = None,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the audit log.")] = "dittofs backup",
) -> None:
    """Write a share as it is at one moment into FILE, while it is in use.

    The server must run.  Changes wait while it walks the tree; reading goes on.  FILE holds everything, also the key of
    the share's handles: keep it as safe as the share.  Locks are not in it.
    """
    from dittofs.backups.format import BadBackup, Piece, ShareHeader, read

    remote = remote_of(config, data, url)
    unfinished = file.with_name(file.name + ".unfinished")
    if file.exists():
        raise Failure(f"{file} is there already")
    try:
        with (
            remote.stream(f"/backups/{in_path(share.lstrip('/'))}", reason=reason) as answer,
            _private(unfinished) as out,
            _Bar() as bar,
        ):
            header, done = None, 0
            for value in read(_Tee(answer, out)):
                if isinstance(value, ShareHeader):
                    header = value
                elif isinstance(value, Piece):
                    done += len(value.data)
                bar.show(done)
            assert header is not None, "a backup that was read has one"
            out.flush()
            os.fsync(out.fileno())
        unfinished.rename(file)
    except BadBackup as error:
        raise Failure(f"there is no backup: {error}") from None
    except OSError as error:
        raise Failure(f"there is no backup: {error}") from None
    finally:
        unfinished.unlink(missing_ok=True)
    print(f"{header.files} files, {size(header.content_bytes)}, as they were at {when(header.made_at)}.")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.", exists=True, dir_okay=False)],
    share: Annotated[str, typer.Argument(metavar="NAME", help="A share of the configuration, empty or new.")],
    config: ConfigFile = None,
    data: DataDirectory = None,
) -> None:
    """Put a backup into a share that is empty or does not exist yet.  The server must not run.

    If the share has the name it had, and nothing of it is left in its stores, clients that have it mounted go on as if
    nothing had happened; otherwise they mount it again.
    """
    settings = settings_of(config, server__data=data)
    from dittofs.backups.restoring import CannotRestore
    from dittofs.offline import restore as restore_share

    try:
        done = restore_share(settings, file, share)
    except CannotRestore as error:
        raise Failure(str(error)) from None
    print(f"{done.files} files, {size(done.content_bytes)}, as they were at {when(done.made_at)}.")
    print(
        "Handles stay good: clients that have it mounted go on."
        if done.keeps_handles
        else "Handles are new: clients that had it mounted have to mount it again."
    )


class _Tee:
    """Reads, and writes what was read."""

    def __init__(self, source: BinaryIO, copy: BinaryIO):
        self._source = source
        self._copy = copy

    def read(self, count: int) -> bytes:
        data = self._source.read(count)
        self._copy.write(data)
        return data


@contextlib.contextmanager
def _private(path: Path) -> Iterator[BinaryIO]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        yield out


class _Bar:
    """How far it is, where somebody looks at a terminal."""

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._shown = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._shown.start()
        self._task = self._shown.add_task("waiting for the server to walk the tree")
        self._next = 0
        return self

    def __exit__(self, *exception: object) -> None:
        self._shown.stop()

    def show(self, done: int) -> None:
        if done >= self._next:
            self._next = done + SHOWN_EVERY_BYTES
            self._shown.update(self._task, description=size(done))
