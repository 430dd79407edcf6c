"""`dittofs serve`."""

from typing import Annotated

import typer

from dittofs import logs
from dittofs.cli.failing import Failure
from dittofs.cli.options import ConfigFile, DataDirectory, settings_of
from dittofs.config import Settings


def serve(
    config: ConfigFile = None,
    data: DataDirectory = None,
    listen: Annotated[
        list[str] | None,
        typer.Option("--listen", metavar="ADDRESS", help="Address to listen on; may be repeated.  [default: all]"),
    ] = None,
    port: Annotated[
        str | None,
        typer.Option("--port", metavar="N", help="Port of NFS, MOUNT, NLM and NSM, TCP and UDP.  [default: 12049]"),
    ] = None,
    portmap: Annotated[
        str | None,
        typer.Option(
            "--portmap",
            metavar="MODE",
            help="How clients find the port: **embedded**, our own port mapper on port 111; **host**, "
            "the rpcbind of this machine; **off**; **auto**, the first of these that can be "
            "had.  [default: auto]",
        ),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error.  [default: info]"),
    ] = None,
    log_format: Annotated[
        str | None, typer.Option("--log-format", metavar="FORMAT", help="text or json.  [default: text]")
    ] = None,
) -> None:
    """Serve files until SIGTERM or SIGINT, and print how to mount them.

    Without any option: one share, /export, kept below the user's data directory, on port 12049.  Root is not needed;
    with root, or where port 111 is free to use, clients need no mount options.
    """

    def load() -> Settings:
        return settings_of(
            config,
            server__data=data,
            server__listen=listen,
            server__port=port,
            server__portmap=portmap,
            log__level=log_level,
            log__format=log_format,
        )

    settings = load()
    logs.configure(settings.log.level, settings.log.format)
    # Late: the help and every refusal above should not wait for the server's imports.
    from dittofs import server

    try:
        server.run(settings, say=lambda text: print(text, end="", flush=True), load=load)
    except server.CannotServe as error:
        raise Failure(str(error)) from error
