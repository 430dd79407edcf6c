"""The rules of a file system, once, for every store and every protocol."""
