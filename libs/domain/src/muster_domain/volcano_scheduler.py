"""What Volcano's scheduler is told to do: actions in order, plugins in tiers, arguments."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

Argument: TypeAlias = "str | int | bool | tuple[Argument, ...] | Mapping[str, Argument]"
"""What one argument says; a number with a fraction is kept as its text."""


class Switch(StrEnum):
    """The switches of a plugin, as the file spells them. The mixed spelling is Volcano's."""

    JOB_ORDER = "enableJobOrder"
    HIERARCHY = "enableHierarchy"
    JOB_READY = "enableJobReady"
    JOB_PIPELINED = "enableJobPipelined"
    TASK_ORDER = "enableTaskOrder"
    PREEMPTABLE = "enablePreemptable"
    RECLAIMABLE = "enableReclaimable"
    PREEMPTIVE = "enablePreemptive"
    QUEUE_ORDER = "enableQueueOrder"
    PREDICATE = "enablePredicate"
    BEST_NODE = "enableBestNode"
    NODE_ORDER = "enableNodeOrder"
    TARGET_JOB = "enableTargetJob"
    RESERVED_NODES = "enableReservedNodes"
    JOB_ENQUEUED = "enableJobEnqueued"
    JOB_STARVING = "enableJobStarving"
    CLUSTER_ORDER = "enabledClusterOrder"
    VICTIM = "enabledVictim"
    OVERUSED = "enabledOverused"
    ALLOCATABLE = "enabledAllocatable"
    HYPER_NODE_ORDER = "enabledHyperNodeOrder"
    SUB_JOB_READY = "enabledSubJobReady"
    SUB_JOB_PIPELINED = "enabledSubJobPipelined"
    SUB_JOB_ORDER = "enabledSubJobOrder"
    HYPER_NODE_GRADIENT = "enabledHyperNodeGradient"


OFF_BY_DEFAULT = frozenset({Switch.HIERARCHY, Switch.CLUSTER_ORDER})
"""Every other switch that a file leaves out is on."""

ON_BY_DEFAULT = frozenset(Switch) - OFF_BY_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginOption:
    """One plugin of a tier, what of it is on, and its arguments."""

    name: str
    enabled: frozenset[Switch] = ON_BY_DEFAULT
    arguments: Mapping[str, Argument] = field(default_factory=dict[str, Argument])


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfiguration:
    """One `volcano-scheduler.conf`. `action_arguments` go by the name of the action."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginOption, ...], ...]
    action_arguments: Mapping[str, Mapping[str, Argument]] = field(
        default_factory=dict[str, Mapping[str, Argument]]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VolcanoScheduler:
    """A `volcano-scheduler.conf` as declared: the ConfigMap that holds it, and what it says."""

    namespace: str
    name: str
    configuration: SchedulerConfiguration

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


def _plain(*names: str) -> tuple[PluginOption, ...]:
    return tuple(PluginOption(name=name) for name in names)


_GANGS_MAY_BE_VICTIMS = ON_BY_DEFAULT - {Switch.PREEMPTABLE}

BUILT_IN = SchedulerConfiguration(
    actions=("enqueue", "allocate", "backfill"),
    tiers=(
        _plain("priority", "gang", "conformance"),
        _plain("overcommit", "drf", "predicates", "proportion", "nodeorder"),
    ),
)
"""What Volcano does without a file."""

INSTALLED = SchedulerConfiguration(
    actions=("enqueue", "allocate", "backfill"),
    tiers=(
        (
            PluginOption(name="priority"),
            PluginOption(name="gang", enabled=_GANGS_MAY_BE_VICTIMS),
            PluginOption(name="conformance"),
        ),
        (
            PluginOption(name="overcommit"),
            PluginOption(name="drf", enabled=_GANGS_MAY_BE_VICTIMS),
            *_plain("predicates", "proportion", "nodeorder", "binpack"),
        ),
    ),
)
"""What Volcano's chart installs: whole gangs may be victims, and nodes are packed."""
