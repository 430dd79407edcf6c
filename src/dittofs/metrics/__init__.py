"""Counters that cost next to nothing, and how Prometheus reads them [OPS-4].  Knows no part of the server."""
