"""`networkTopology` of a Job or PodGroup, and HyperNodes."""

import re
from dataclasses import dataclass, field

from muster_domain.queues import HyperNode
from muster_domain.selectors import Selector
from muster_domain.workload import NetworkTopology, NetworkTopologyMode
from muster_manifests.manifest import Manifest
from muster_manifests.reader import ObjectReader, count_of
from muster_manifests.terms import read_label_selector

_SELECTOR_KINDS = ("exactMatch", "regexMatch", "labelMatch")


def read_network_topology(owner: ObjectReader) -> NetworkTopology | None:
    """Read `networkTopology`; a name under `highestTierAllowed` is read as the tier's name."""
    reader = owner.object("networkTopology")
    if not reader.present:
        return None
    name = reader.text("highestTierName")
    allowed = reader.raw("highestTierAllowed")
    tier: int | None = None
    if isinstance(allowed, str) and count_of(allowed) is None:
        reader.warn(
            "highestTierAllowed",
            f"{allowed!r} is read as the name of a tier",
            f"write highestTierName: {allowed}",
        )
        name = name or allowed
    elif isinstance(allowed, str):
        tier = count_of(allowed)
    else:
        tier = reader.optional_integer("highestTierAllowed", low=0)
    if tier is not None and name:
        reader.problem("highestTierName", "excludes highestTierAllowed", "keep one of them")
    return NetworkTopology(
        mode=reader.choice("mode", NetworkTopologyMode, NetworkTopologyMode.HARD),
        highest_tier=tier,
        highest_tier_name=name,
    )


def read_hyper_node(manifest: Manifest) -> HyperNode:
    """Read a HyperNode: the nodes or smaller HyperNodes that make up one domain."""
    spec = manifest.body.object("spec")
    nodes = _Members()
    hyper_nodes = _Members()
    for item in spec.objects("members"):
        kind = item.required_text("type")
        if kind not in ("Node", "HyperNode"):
            item.rule("type", f"{kind!r} is none of its values", "write Node or HyperNode")
        (hyper_nodes if kind == "HyperNode" else nodes).read(item)
    if hyper_nodes.selectors:
        spec.problem("members", "HyperNodes are not chosen by label", "write exactMatch")
    if len(nodes.selectors) > 1:
        spec.problem(
            "members", "more than one labelMatch", "write one HyperNode for each labelMatch"
        )
    return HyperNode(
        name=manifest.metadata.name,
        tier=spec.integer("tier", 1, low=0),
        tier_name=spec.text("tierName"),
        node_members=tuple(nodes.names),
        node_selector=nodes.selectors[0] if nodes.selectors else None,
        node_patterns=tuple(nodes.patterns),
        hyper_node_members=tuple(hyper_nodes.names),
        hyper_node_patterns=tuple(hyper_nodes.patterns),
    )


@dataclass(slots=True)
class _Members:
    """The members of one kind, by how they are chosen."""

    names: list[str] = field(default_factory=list[str])
    patterns: list[str] = field(default_factory=list[str])
    selectors: list[Selector] = field(default_factory=list[Selector])

    def read(self, item: ObjectReader) -> None:
        selector = item.object("selector")
        written = [key for key in _SELECTOR_KINDS if key in selector]
        if len(written) != 1:
            item.rule("selector", f"{len(written)} selectors", "write exactMatch: {name: ...}")
        if "exactMatch" in selector:
            self.names.append(selector.object("exactMatch").required_text("name"))
        if "regexMatch" in selector:
            self._read_pattern(selector.object("regexMatch"))
        if "labelMatch" in selector:
            self.selectors.append(read_label_selector(selector.object("labelMatch")))

    def _read_pattern(self, reader: ObjectReader) -> None:
        pattern = reader.required_text("pattern")
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError):
            reader.problem("pattern", f"{pattern!r} is not a regular expression", "write ^node-.*$")
        self.patterns.append(pattern)
