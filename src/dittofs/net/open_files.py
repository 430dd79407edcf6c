"""How many files and connections this process may have open: the system's limit, raised as far as we may."""

import resource

BESIDES_CONNECTIONS = 1024
"""Content files that are kept open, logs, listening sockets and calls to other hosts."""


def allow_connections(wanted: int) -> int:
    """Make room for so many connections; how many there is room for.  Raising the soft limit needs no privilege."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(soft, wanted + BESIDES_CONNECTIONS)
    allowed = max(soft, min(hard, wanted + BESIDES_CONNECTIONS))
    if allowed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return max(0, allowed - BESIDES_CONNECTIONS)
