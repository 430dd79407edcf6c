"""`dittofs`: joins the commands, and ends every failure with one clear line and an exit status.

0: done; 1: it failed; 2: it was asked for wrongly (usage or configuration).
"""

import sys
from typing import NoReturn

import typer

from dittofs.cli import backup, check, client, clients, config, grace, lock, serve, share, status, transfer, version
from dittofs.cli.failing import Failure
from dittofs.loading import ConfigError

USAGE = 2
FAILURE = 1

app = typer.Typer(
    name="dittofs",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "A network file server in user space, with one lock manager for every protocol.\n\n"
        "**dittofs serve** starts a share on defaults that work, and prints how to mount it."
    ),
    epilog=(
        "Every setting can also be given by a variable: **server.port** is DITTOFS_SERVER_PORT.  "
        "Flags win over variables, variables over the file."
    ),
)
app.command("serve")(serve.serve)
app.command("check")(check.check)
app.add_typer(config.app, name="config")
app.add_typer(lock.app, name="lock")
client.app.command("ls")(clients.list_clients)
client.app.command("show")(clients.show)
client.app.command("forget")(clients.forget)
app.add_typer(client.app, name="client")
app.add_typer(share.app, name="share")
app.add_typer(grace.app, name="grace")
app.command("status")(status.status)
app.command("top")(status.top)
app.command("audit")(status.audit)
app.command("reload")(status.reload)
app.command("import")(transfer.import_tree)
app.command("export")(transfer.export_tree)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.command("version")(version.version)


def main() -> NoReturn:
    """The entry point."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """One command line; its exit status."""
    try:
        status = app(args=arguments, prog_name="dittofs", standalone_mode=False)
    except ConfigError as error:
        return complain(*error.problems, status=USAGE)
    except Failure as error:
        return complain(str(error), status=FAILURE)
    except typer.Abort:
        return 130
    except typer.TyperException as error:
        # Without a message Typer has printed the help of a command that was given nothing.
        message = error.format_message()
        return USAGE if not message else complain(f"{message} (dittofs --help says what there is)", status=USAGE)
    return status if isinstance(status, int) else 0


def complain(*lines: str, status: int) -> int:
    for line in lines:
        print(f"dittofs: {' '.join(line.split())}", file=sys.stderr)
    return status
