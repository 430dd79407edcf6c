"""protocols/portmap."""
