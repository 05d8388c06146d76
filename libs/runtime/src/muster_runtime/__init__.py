"""Service chassis: bus, inbox, outbox relay, leases, telemetry, health, settings."""
