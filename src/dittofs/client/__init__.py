"""A small client of our own: for tests, and for people at the command line."""
