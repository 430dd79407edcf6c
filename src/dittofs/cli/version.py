"""`dittofs version`."""

import platform

from dittofs import __version__


def version() -> None:
    """Print the version of DittoFS, and of the Python it runs on."""
    print(f"dittofs {__version__} (Python {platform.python_version()}, {platform.system()} {platform.machine()})")
