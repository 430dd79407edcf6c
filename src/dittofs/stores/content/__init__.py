"""stores/content."""
