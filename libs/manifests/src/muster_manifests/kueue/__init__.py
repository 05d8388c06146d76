"""Kueue's own kinds, in v1beta1 and v1beta2; each spelling is taken under either version."""
