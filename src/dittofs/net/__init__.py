"""The only sockets of the data plane: they pump bytes through `rpc`, within limits."""
