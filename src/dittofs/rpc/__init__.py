"""ONC RPC version 2 (RFC 5531), without sockets: messages, record marking, credentials, replay, dispatch."""
