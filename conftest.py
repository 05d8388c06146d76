"""Fixtures that every package's tests may ask for: `valkey` and `nats`."""

pytest_plugins = ["muster_testing.fixtures"]
