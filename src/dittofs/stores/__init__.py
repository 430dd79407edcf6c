"""Where things are kept.  Stores keep records and bytes; they know no rules about files."""
