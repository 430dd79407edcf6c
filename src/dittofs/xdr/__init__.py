"""XDR (RFC 4506): bytes to values and back, from declarations.  Knows no protocol."""
