"""Builders, verified fakes, scenario loader, embedded servers for tests."""
