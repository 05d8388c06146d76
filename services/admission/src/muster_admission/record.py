"""What admission stores about a workload, and under which field."""

from dataclasses import dataclass

from muster_contracts import codec
from muster_domain.conditions import Outcome
from muster_domain.states import Admitted, Evicting, Reserved, WorkloadState
from muster_domain.workload import Workload

WORKLOAD_FIELD = "w/"
TOMBSTONE_FIELD = "t/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A workload, where it queues, and what has become of it."""

    workload: Workload
    cluster_queue: str
    state: WorkloadState
    traceparent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """The end of a workload that was reported before its submission arrived."""

    outcome: Outcome
    at_ms: int
    message: str = ""


Holding = Reserved | Admitted | Evicting
"""The states in which quota is charged."""


def encode_record(record: Record) -> bytes:
    """The stored form."""
    return codec.encode(record)


def decode_record(stored: bytes) -> Record:
    """Read the stored form."""
    return codec.decode(Record, stored)
