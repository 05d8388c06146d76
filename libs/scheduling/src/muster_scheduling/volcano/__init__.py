"""Volcano's scheduling session as a pure function.

    plan = run_session(snapshot, configuration)

`SessionSnapshot` is everything that it may depend on, `Plan` everything that it decided: binds,
places to come (pipelines), evictions, phases of PodGroups, and for every job one word and the
numbers behind it. `configuration` is Volcano's own file, read by `muster_manifests`; what Volcano
does without a file and what its chart installs are `BUILT_IN` and `INSTALLED`.

Rule numbers (G1, A8, ...) name the groups of Volcano's behaviour: G gangs, P plugins, E enqueue,
A allocate, S statements, B backfill, X preempt, Y reclaim, T topology, K bundles, C the cycle.
"""

from muster_domain.volcano_scheduler import BUILT_IN, INSTALLED
from muster_scheduling.volcano.plan import (
    Bind,
    Eviction,
    EvictionReason,
    JobOutcome,
    PhaseChange,
    Pipeline,
    Plan,
    Refusal,
    TaskStatus,
    Verdict,
)
from muster_scheduling.volcano.run import run_session
from muster_scheduling.volcano.snapshot import NodeShard, SessionSnapshot

__all__ = [
    "BUILT_IN",
    "INSTALLED",
    "Bind",
    "Eviction",
    "EvictionReason",
    "JobOutcome",
    "NodeShard",
    "PhaseChange",
    "Pipeline",
    "Plan",
    "Refusal",
    "SessionSnapshot",
    "TaskStatus",
    "Verdict",
    "run_session",
]
