"""Who goes first: orders of pending workloads, of entries of a cycle and of victims."""
