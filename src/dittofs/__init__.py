"""DittoFS: a network file server in user space with one lock manager for every protocol."""

__version__ = "0.1.0"
