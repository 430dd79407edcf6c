"""protocols/nfs3."""
