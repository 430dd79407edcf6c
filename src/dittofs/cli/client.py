"""`dittofs client …`: what can be done with a server, ours or another, without mounting it."""

import os
import re
import signal
import subprocess
import sys
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from dittofs.cli.failing import Failure

if TYPE_CHECKING:
    from dittofs.client.locking import RemoteLock

app = typer.Typer(
    no_args_is_help=True,
    help="Look at clients of the running server, or use any server without mounting it.",
)

CHECK_SECONDS = 1.0
NOT_TO_BE_CAUGHT = {
    *(signal.SIGKILL, signal.SIGSTOP),
    # Not the end of a process: job control, and what is ignored by default.
    *(signal.SIGCHLD, signal.SIGCONT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGURG, signal.SIGWINCH),
    # Faults of this process itself.
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS, signal.SIGABRT),
    signal.SIGPIPE,
}
BY_TERMINAL = {signal.SIGINT, signal.SIGQUIT}
NOT_FOUND, NOT_EXECUTABLE = 127, 126

HELP = """Hold a lock on a file of a server while COMMAND runs, as flock(1) does for local files.

PATH is below the export; the file is made if it is not there.  The exit status is that of COMMAND.  Without **--wait**
a lock that somebody else holds is not waited for, and COMMAND is not run.

With **--wait** the place in the server's queue is kept, and the server calls back.  Where the lock service of this
host's kernel has the callback port, or port 111 is not to be had, the server is asked again and again instead, with
pauses of up to a second and a half, and whoever asks first gets it.

Whatever signal ends this command or COMMAND, the lock is given back.  **SIGKILL** cannot be caught, nor can a power
cut: the lock then stays on the server until its operator frees it, there with **dittofs lock ls** (the holder is this
host's name and the process id) and **dittofs lock release**, or until this host's status monitor tells the server of a
reboot."""


class _Stopped(Exception):
    """A signal came while nothing was running yet."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


class _Signals:
    """What a signal does: it ends the waiting for the lock, or goes on to the command, or has come too late."""

    def __init__(self) -> None:
        self._is_waiting = True
        self._process: subprocess.Popen[bytes] | None = None
        self._pending: list[int] = []
        for number in signal.valid_signals() - NOT_TO_BE_CAUGHT:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
                signal.signal(number, self._came)

    def start(self, command: list[str]) -> "subprocess.Popen[bytes]":
        """Run the command; what came while it was being started is handed on to it too."""
        self.end()
        process = subprocess.Popen(command)
        self._process = process
        while self._pending:
            process.send_signal(self._pending.pop())
        return process

    def end(self) -> None:
        """From now on nothing is cut short: the lock has to be given back."""
        self._is_waiting = False

    def _came(self, number: int, frame: FrameType | None) -> None:
        if self._is_waiting:
            raise _Stopped(number)
        if number in BY_TERMINAL and os.isatty(0):
            return  # the terminal has sent it to the command as well
        if self._process is None:
            self._pending.append(number)
        else:
            self._process.send_signal(number)


@app.command("lock", help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
def lock(
    location: Annotated[str, typer.Argument(metavar="HOST:/export", help="The server and what it exports.")],
    path: Annotated[str, typer.Argument(metavar="PATH", help="The file, below the export.")],
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND…", help="What to run while the lock is held.")],
    range_: Annotated[
        str | None,
        typer.Option(
            "--range",
            metavar="A-B",
            help="From byte A up to, not including, byte B; **A-** to the end.  [default: all]",
        ),
    ] = None,
    shared: Annotated[bool, typer.Option("--shared", "-s", help="Others may hold it shared too.")] = False,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait until the lock is free.")] = False,
    conflict_exit_code: Annotated[
        int,
        typer.Option("--conflict-exit-code", "-E", metavar="N", min=0, max=255, help="If somebody else has it."),
    ] = 1,
    port: Annotated[
        int | None,
        typer.Option("--port", metavar="N", min=1, max=65535, help="Of all services.  [default: ask port 111]"),
    ] = None,
) -> int:
    """See HELP."""
    from dittofs.client.locking import FAILURES, HeldByOther, Place, RemoteLock

    host, export = _location(location)
    start, length = _range(range_)
    signals = _Signals()
    taken: RemoteLock | None = None
    try:
        taken = RemoteLock(Place(host, export, path, port), offset=start, length=length, exclusive=not shared)
        taken.take(wait=wait)
        return _run(command, signals, taken)
    except HeldByOther as error:
        print(f"dittofs: {location} {path}: {error}", file=sys.stderr)
        return conflict_exit_code
    except _Stopped as stopped:
        return 128 + stopped.number
    except FAILURES as error:
        raise Failure(f"{location} {path}: {error}") from error
    finally:
        if taken is not None:
            signals.end()
            try:
                taken.give_back()
            except FAILURES as error:
                print(f"dittofs: the lock is not given back, its operator has to free it: {error}", file=sys.stderr)


def _run(command: list[str], signals: _Signals, taken: "RemoteLock") -> int:
    """The exit status of the command."""
    try:
        process = signals.start(command)
    except FileNotFoundError:
        print(f"dittofs: {command[0]}: not found", file=sys.stderr)
        return NOT_FOUND
    except OSError as error:
        print(f"dittofs: {command[0]}: {error.strerror}", file=sys.stderr)
        return NOT_EXECUTABLE
    trouble: str | None = None
    while True:
        try:
            status = process.wait(CHECK_SECONDS)
            return status if status >= 0 else 128 - status
        except subprocess.TimeoutExpired:
            now = taken.check()
            if now and now != trouble:
                print(f"dittofs: {now}", file=sys.stderr)
            trouble = now


def _location(text: str) -> tuple[str, str]:
    found = re.fullmatch(r"(?:\[([^\]]+)\]|([^:/\[\]]+)):(/.*)", text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is not HOST:/export, nor [IPv6 address]:/export")
    return found[1] or found[2], found[3]


def _range(text: str | None) -> tuple[int, int]:
    """The offset and the length, 0 for "to the end"."""
    if text is None:
        return 0, 0
    found = re.fullmatch(r"(\d+)-(\d*)", text)
    if found is None:
        raise typer.BadParameter(f"--range {text}: must be A-B or A-, in bytes")
    start, end = int(found[1]), int(found[2] or 2**64)
    if not start < end <= 2**64:
        raise typer.BadParameter(f"--range {text}: A must be below B, and B at most 2^64")
    return start, 0 if end == 2**64 else end - start
