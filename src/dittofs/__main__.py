"""`python -m dittofs` is `dittofs`."""

from dittofs.cli.main import main

main()
