"""The muster command and Python client."""
