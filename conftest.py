"""Fixtures that every package's tests may ask for: `valkey`, `nats` and `postgres`."""

pytest_plugins = ["muster_testing.fixtures"]
