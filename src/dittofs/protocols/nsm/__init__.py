"""The network status monitor, program 100024: who has rebooted [NSM-1] to [NSM-4]."""
