"""The decision core: pure functions from a snapshot to a plan."""
