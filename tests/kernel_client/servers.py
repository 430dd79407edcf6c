"""Configurations that the kernel's client is tried against: one share, /export, without squashing."""

_SHARE = """
[server]
portmap = "embedded"
[[shares]]
name = "/export"
squash = "none"
"""
EMBEDDED = (
    _SHARE
    + """
[stores.meta]
kind = "embedded"
[stores.files]
kind = "directory"
"""
)
MEMORY = (
    _SHARE
    + """
[stores.meta]
kind = "memory"
[stores.files]
kind = "memory"
"""
)


def over_postgres(dsn: str) -> str:
    return EMBEDDED.replace('kind = "embedded"', f'kind = "postgres"\ndsn = "{dsn}"')
