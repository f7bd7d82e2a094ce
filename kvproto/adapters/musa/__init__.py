"""Moore Threads devices, torch device type `musa`."""
