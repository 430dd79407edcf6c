"""How a command fails: an exception whose message is all that the user sees."""


class Failure(Exception):
    """The command could not do its work; exit status 1."""
