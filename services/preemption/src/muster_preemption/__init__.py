"""The preemption service."""
