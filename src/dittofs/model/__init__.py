"""Plain values that every layer speaks.  Imports nothing of ours."""
