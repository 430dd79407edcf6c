"""shares."""
