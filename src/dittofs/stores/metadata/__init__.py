"""stores/metadata."""
