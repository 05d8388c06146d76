from muster_testing.fixtures import nats

__all__ = ["nats"]
