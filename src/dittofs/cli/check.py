"""`dittofs check`."""

from typing import Annotated

import typer

from dittofs.cli.failing import Failure
from dittofs.cli.options import ConfigFile, DataDirectory, settings_of


def check(
    config: ConfigFile = None,
    data: DataDirectory = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Remove content that belongs to no file.  Without it nothing is changed.")
    ] = False,
) -> None:
    """Check the data of a server that is not running: tree, link counts, orphans, log and format version.

    Prints one line for each problem.  Exit status 0: none; 1: there are some.
    """
    settings = settings_of(config, server__data=data)
    from dittofs.offline import check_data

    report = check_data(settings, repair=repair)
    for problem in report.problems:
        print(problem)
    if report.problems:
        raise Failure(report.summary)
    print(report.summary)
