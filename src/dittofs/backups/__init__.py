"""backups."""
