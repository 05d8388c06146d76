"""Every plugin by the name that a configuration gives it."""

from collections.abc import Callable, Mapping

from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.volcano.plugins.binpack import open_binpack
from muster_scheduling.volcano.plugins.capacity import open_capacity
from muster_scheduling.volcano.plugins.conformance import open_conformance
from muster_scheduling.volcano.plugins.drf import open_drf
from muster_scheduling.volcano.plugins.gang import open_gang
from muster_scheduling.volcano.plugins.network_topology import open_network_topology
from muster_scheduling.volcano.plugins.nodeorder import open_nodeorder
from muster_scheduling.volcano.plugins.overcommit import open_overcommit
from muster_scheduling.volcano.plugins.predicates import open_predicates
from muster_scheduling.volcano.plugins.priority import open_priority
from muster_scheduling.volcano.plugins.proportion import open_proportion
from muster_scheduling.volcano.plugins.resource_strategy_fit import open_resource_strategy_fit
from muster_scheduling.volcano.plugins.resourcequota import open_resourcequota
from muster_scheduling.volcano.plugins.sla import open_sla
from muster_scheduling.volcano.session import Session

Plugin = Callable[[Session, PluginOption], None]
"""Registers a plugin's functions at the session's points; called once, when the session opens."""

PLUGINS: Mapping[str, Plugin] = {
    "binpack": open_binpack,
    "capacity": open_capacity,
    "conformance": open_conformance,
    "drf": open_drf,
    "gang": open_gang,
    "network-topology-aware": open_network_topology,
    "nodeorder": open_nodeorder,
    "overcommit": open_overcommit,
    "predicates": open_predicates,
    "priority": open_priority,
    "proportion": open_proportion,
    "resource-strategy-fit": open_resource_strategy_fit,
    "resourcequota": open_resourcequota,
    "sla": open_sla,
}
