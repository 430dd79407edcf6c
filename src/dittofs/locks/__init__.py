"""One table of byte-range locks and share reservations for every protocol: a pure machine.  See README.md."""
