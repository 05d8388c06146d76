"""Every plugin by the name that a configuration gives it."""

from collections.abc import Callable, Mapping

from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.volcano.plugins.binpack import open_binpack
from muster_scheduling.volcano.plugins.conformance import open_conformance
from muster_scheduling.volcano.plugins.gang import open_gang
from muster_scheduling.volcano.plugins.priority import open_priority
from muster_scheduling.volcano.plugins.sla import open_sla
from muster_scheduling.volcano.session import Session

Plugin = Callable[[Session, PluginOption], None]
"""Registers a plugin's functions at the session's points; called once, when the session opens."""

PLUGINS: Mapping[str, Plugin] = {
    "binpack": open_binpack,
    "conformance": open_conformance,
    "gang": open_gang,
    "priority": open_priority,
    "sla": open_sla,
}
