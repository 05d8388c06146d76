"""The domains that nodes are in: by the labels of Topologies, and by HyperNodes. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from muster_domain.queues import HyperNode, Topology
from muster_scheduling.placement.columns import Columns, Vector
from muster_scheduling.placement.record import HOSTNAME
from muster_scheduling.volcano.tree import ROOT, HyperNodeTree

HYPER_NODES = "HyperNode"
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A domain of a topology and the rows of its nodes; the whole floor has no path."""

    topology: str
    level: str
    path: Path
    rows: Vector


@dataclass(frozen=True, slots=True)
class FloorPlan:
    """All domains, the whole floor first, each before those inside it; and where each node is.

    `places` has a row's narrowest domain in each topology that it is in.
    """

    domains: tuple[Domain, ...]
    places: tuple[Mapping[str, Path], ...]


def floor_plan(
    columns: Columns, topologies: Iterable[Topology], hyper_nodes: tuple[HyperNode, ...]
) -> FloorPlan:
    """The domains of these topologies, which are remembered until labels change."""
    declared = tuple(sorted(topologies, key=lambda topology: topology.name))
    key = (FloorPlan, declared, hyper_nodes)
    return columns.remembered(key, lambda: _draw(columns, declared, hyper_nodes))


def tier_level(tier: int) -> str:
    """The level of HyperNodes whose tier has no name."""
    return f"tier {tier}"


def _draw(
    columns: Columns, topologies: tuple[Topology, ...], hyper_nodes: tuple[HyperNode, ...]
) -> FloorPlan:
    everything = np.arange(len(columns))
    domains = [Domain(topology="", level="", path=(), rows=everything)]
    places: list[dict[str, Path]] = [{} for _ in range(len(columns))]
    for topology in topologies:
        found = _by_labels(columns, topology)
        domains += found
    if hyper_nodes:
        domains += _by_hyper_nodes(columns, hyper_nodes)
    for domain in domains[1:]:
        for row in domain.rows.tolist():
            places[row][domain.topology] = domain.path
    return FloorPlan(tuple(domains), tuple(places))


def _by_labels(columns: Columns, topology: Topology) -> list[Domain]:
    """Domains of the nodes that carry every label; a hostname makes no domain of its own."""
    labels = [columns.label(label) for label in topology.levels]
    levels = [label for label in topology.levels if label != HOSTNAME]
    rows: dict[Path, list[int]] = {}
    for row in range(len(columns)):
        values = [column.values[int(column.codes[row])] for column in labels]
        present = tuple(value for value in values if value is not None)
        if len(present) == len(labels):
            for depth in range(1, len(levels) + 1):
                rows.setdefault(present[:depth], []).append(row)
    return [
        Domain(
            topology=topology.name,
            level=levels[len(path) - 1],
            path=path,
            rows=np.array(rows[path], np.int64),
        )
        for path in sorted(rows)
    ]


def _by_hyper_nodes(columns: Columns, hyper_nodes: tuple[HyperNode, ...]) -> list[Domain]:
    tree = HyperNodeTree(hyper_nodes, {node.name: node.labels for node in columns.nodes})
    tier_names = {found.name: found.tier_name for found in hyper_nodes}
    found: list[Domain] = []

    def descend(name: str, above: Path) -> None:
        for child in sorted(tree.domains[name].children):
            domain, path = tree.domains[child], (*above, child)
            found.append(
                Domain(
                    topology=HYPER_NODES,
                    level=tier_names[child] or tier_level(domain.tier),
                    path=path,
                    rows=np.flatnonzero(domain.nodes),
                )
            )
            descend(child, path)

    descend(ROOT, ())
    return found
