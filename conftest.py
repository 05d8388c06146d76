"""Fixtures that every package's tests may ask for: `valkey`, `nats` and `postgres`.

Property tests have no deadline: how long an example takes says how busy the machine is.
"""

from hypothesis import settings

pytest_plugins = ["muster_testing.fixtures"]

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
