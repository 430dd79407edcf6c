"""The two ways in which XDR fails; they are kept apart because they are not the same party's fault."""


class XdrError(Exception):
    """The bytes received are not what the declaration allows: the sender's fault (GARBAGE_ARGS)."""


class UnencodableValue(ValueError):
    """A value of ours does not fit its declaration: our own fault, never answered as garbage."""
