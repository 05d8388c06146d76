"""The tree of HyperNodes over the nodes of a session (T1 to T4)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from muster_domain.queues import HyperNode
from muster_domain.selectors import Labels
from muster_scheduling.placement.columns import Mask

ROOT = "<cluster-top-hypernode>"
"""The virtual HyperNode above all others; it holds every node."""


@dataclass(slots=True, eq=False)
class Domain:
    """One HyperNode, placed in the tree; `nodes` are the rows of the nodes under it."""

    name: str
    tier: int
    nodes: Mask
    parent: str = ""
    children: list[str] = field(default_factory=list[str])


class HyperNodeTree:
    """HyperNodes by name. With `problem` set the tree is wrong, and topology cannot be honoured.

    The depth may differ from branch to branch: only the order of the tiers counts.
    """

    def __init__(self, hyper_nodes: Iterable[HyperNode], nodes: Mapping[str, Labels]) -> None:
        self.problem = ""
        self.domains: dict[str, Domain] = {}
        self.tier_of_name: dict[str, int] = {}
        ordered = sorted(hyper_nodes, key=lambda found: (found.tier, found.name))
        names = list(nodes)
        row = {name: number for number, name in enumerate(names)}
        for found in ordered:
            self.domains[found.name] = Domain(
                found.name, found.tier, _own_nodes(found, nodes, names, row)
            )
            if found.tier_name:
                self.tier_of_name.setdefault(found.tier_name, found.tier)
        self._connect(ordered)
        self._gather(ordered)
        top = max((found.tier for found in ordered), default=0) + 1
        root = Domain(ROOT, top, np.ones(len(names), np.bool_))
        for domain in self.domains.values():
            if not domain.parent:
                domain.parent = ROOT
                root.children.append(domain.name)
        self.domains[ROOT] = root
        self.tiers = sorted({domain.tier for domain in self.domains.values()})
        """The tiers that exist, lowest first, the virtual root's included."""
        self._names = names
        self._leaves: list[str] | None = None

    def tier(self, name: str) -> int:
        """The tier of a HyperNode."""
        return self.domains[name].tier

    @property
    def leaves(self) -> Sequence[str]:
        """The lowest HyperNode around each node, by row."""
        if self._leaves is None:
            leaves = [ROOT] * len(self._names)
            for domain in sorted(self.domains.values(), key=lambda d: (-d.tier, d.name)):
                for row in np.flatnonzero(domain.nodes).tolist():
                    leaves[row] = domain.name
            self._leaves = leaves
        return self._leaves

    def ancestors(self, name: str) -> list[str]:
        """A HyperNode and all above it, lowest first."""
        path: list[str] = []
        while name:
            path.append(name)
            name = self.domains[name].parent
        return path

    def inside(self, name: str, outer: str) -> bool:
        """Whether a HyperNode is another, or lies in it."""
        return outer in self.ancestors(name)

    def common(self, left: str, right: str) -> str:
        """The lowest HyperNode around two; the other one where one is empty."""
        if not left or not right:
            return left or right
        above = self.ancestors(left)
        return next((name for name in self.ancestors(right) if name in above), ROOT)

    def around(self, rows: Iterable[int]) -> str:
        """The lowest HyperNode around some nodes; empty for none."""
        found = ""
        for leaf in sorted({self.leaves[row] for row in rows}):
            found = self.common(found, leaf)
        return found

    def search_root(self, inside: str, allowed_tier: int, held: str) -> str:
        """Where to look for more room beside what is held (T3); empty where nowhere is allowed."""
        if not held:
            return inside
        reachable = [name for name in self.ancestors(held) if self.tier(name) <= allowed_tier]
        if not reachable:
            return ""
        highest = reachable[-1]
        if self.inside(highest, inside):
            return highest
        return inside if self.inside(inside, highest) else ""

    def below(self, name: str) -> list[str]:
        """A HyperNode and all under it, breadth first, by name on each step."""
        found = [name]
        for current in found:
            found += sorted(self.domains[current].children)
        return found

    def _connect(self, ordered: Sequence[HyperNode]) -> None:
        for found in ordered:
            for name in _members(found, self.domains):
                child = self.domains[name]
                if child.parent and child.parent != found.name:
                    self.problem = f"HyperNode {name} is in {child.parent} and in {found.name}"
                    continue
                child.parent = found.name
                self.domains[found.name].children.append(name)
        for name in list(self.domains):
            if self._circles(name):
                self.problem = f"HyperNode {name} is inside itself"
                self.domains[self.domains[name].parent].children.remove(name)
                self.domains[name].parent = ""

    def _circles(self, name: str) -> bool:
        seen = name
        for _ in self.domains:
            seen = self.domains[seen].parent
            if seen in ("", name):
                break
        return seen == name

    def _gather(self, ordered: Sequence[HyperNode]) -> None:
        """Give every HyperNode the nodes of those inside it, from the bottom up."""
        done: set[str] = set()

        def visit(name: str) -> Mask:
            domain = self.domains[name]
            if name not in done:
                done.add(name)
                for child in domain.children:
                    domain.nodes |= visit(child)
            return domain.nodes

        for found in ordered:
            visit(found.name)


def _own_nodes(
    found: HyperNode, nodes: Mapping[str, Labels], names: Sequence[str], row: Mapping[str, int]
) -> Mask:
    mask = np.zeros(len(names), np.bool_)
    mask[[row[name] for name in found.node_members if name in row]] = True
    patterns = [re.compile(pattern) for pattern in found.node_patterns]
    selector = found.node_selector
    if selector is not None and not selector.requirements:
        selector = None
    if patterns or selector is not None:
        for number, name in enumerate(names):
            by_name = any(pattern.search(name) for pattern in patterns)
            by_label = selector is not None and selector.matches(nodes[name])
            if by_name or by_label:
                mask[number] = True
    return mask


def _members(found: HyperNode, known: Mapping[str, Domain]) -> list[str]:
    named = [name for name in dict.fromkeys(found.hyper_node_members) if name in known]
    patterns = [re.compile(pattern) for pattern in found.hyper_node_patterns]
    if patterns:
        named += [
            name
            for name in known
            if name not in named and any(pattern.search(name) for pattern in patterns)
        ]
    return [name for name in named if name != found.name]
