"""The command line: one file per noun.  `main.py` joins them and turns errors into one line and an exit status."""
