"""Volcano's own kinds: Queue, PodGroup, Job and HyperNode."""
