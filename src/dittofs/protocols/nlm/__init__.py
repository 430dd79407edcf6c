"""protocols/nlm: the network lock manager, program 100021, versions 1, 3 and 4."""
