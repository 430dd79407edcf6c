"""protocols/mount."""
