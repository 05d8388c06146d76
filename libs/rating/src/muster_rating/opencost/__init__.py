"""Allocations as OpenCost counts and names them, from Muster's own exact books.

What differs is said in docs/cost-api.md: windows are clipped to their end, unknown words are
refused, and capacity that took no pods is `__unavailable__` and never idle.
"""
