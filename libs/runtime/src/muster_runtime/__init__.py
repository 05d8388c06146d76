"""The chassis of every service.

Owns the way to the bus, the stored state, leases, telemetry and health. Knows nothing of quota,
nodes or money.
"""
