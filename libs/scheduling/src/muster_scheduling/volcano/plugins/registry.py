"""Every plugin by the name that a configuration gives it."""

from collections.abc import Callable, Mapping

from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.volcano.plugins.binpack import open_binpack
from muster_scheduling.volcano.plugins.capacity import open_capacity
from muster_scheduling.volcano.plugins.cdp import open_cdp
from muster_scheduling.volcano.plugins.conformance import open_conformance
from muster_scheduling.volcano.plugins.deviceshare import open_deviceshare
from muster_scheduling.volcano.plugins.drf import open_drf
from muster_scheduling.volcano.plugins.gang import open_gang
from muster_scheduling.volcano.plugins.network_topology import open_network_topology
from muster_scheduling.volcano.plugins.nodegroup import open_nodegroup
from muster_scheduling.volcano.plugins.nodeorder import open_nodeorder
from muster_scheduling.volcano.plugins.numa_aware import open_numa_aware
from muster_scheduling.volcano.plugins.overcommit import open_overcommit
from muster_scheduling.volcano.plugins.pdb import open_pdb
from muster_scheduling.volcano.plugins.predicates import open_predicates
from muster_scheduling.volcano.plugins.priority import open_priority
from muster_scheduling.volcano.plugins.proportion import open_proportion
from muster_scheduling.volcano.plugins.resource_strategy_fit import open_resource_strategy_fit
from muster_scheduling.volcano.plugins.resourcequota import open_resourcequota
from muster_scheduling.volcano.plugins.sla import open_sla
from muster_scheduling.volcano.plugins.task_topology import open_task_topology
from muster_scheduling.volcano.plugins.tdm import open_tdm
from muster_scheduling.volcano.plugins.usage import open_usage
from muster_scheduling.volcano.session import Session

Plugin = Callable[[Session, PluginOption], None]
"""Registers a plugin's functions at the session's points; called once, when the session opens."""

PLUGINS: Mapping[str, Plugin] = {
    "binpack": open_binpack,
    "capacity": open_capacity,
    "cdp": open_cdp,
    "conformance": open_conformance,
    "deviceshare": open_deviceshare,
    "drf": open_drf,
    "gang": open_gang,
    "network-topology-aware": open_network_topology,
    "nodegroup": open_nodegroup,
    "nodeorder": open_nodeorder,
    "numa-aware": open_numa_aware,
    "overcommit": open_overcommit,
    "pdb": open_pdb,
    "predicates": open_predicates,
    "priority": open_priority,
    "proportion": open_proportion,
    "resource-strategy-fit": open_resource_strategy_fit,
    "resourcequota": open_resourcequota,
    "sla": open_sla,
    "task-topology": open_task_topology,
    "tdm": open_tdm,
    "usage": open_usage,
}
