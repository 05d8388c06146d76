"""What kinds of objects there are, and what people call them."""

from collections.abc import Mapping

from muster_domain.errors import NotFound
from muster_manifests.registry import KINDS

SHORT_NAMES: Mapping[str, str] = {
    "cq": "ClusterQueue",
    "lq": "LocalQueue",
    "rf": "ResourceFlavor",
    "flavor": "ResourceFlavor",
    "wpc": "WorkloadPriorityClass",
    "pc": "PriorityClass",
    "ns": "Namespace",
    "no": "Node",
    "topo": "Topology",
    "ac": "AdmissionCheck",
    "vq": "Queue",
    "hn": "HyperNode",
    "jf": "JobFlow",
    "jt": "JobTemplate",
    "price": "PriceList",
    "prices": "PriceList",
    "cp": "ChargingPolicy",
}
_NAMESPACED: Mapping[str, bool] = {kind: entry.namespaced for (_, kind), entry in KINDS.items()}


def kind_of(spelling: str) -> str:
    """The kind that somebody means. Raises `NotFound` for one that does not exist."""
    lowered = spelling.lower()
    if lowered in SHORT_NAMES:
        return SHORT_NAMES[lowered]
    for kind in sorted(_NAMESPACED):
        if lowered in (kind.lower(), _plural(kind.lower())):
            return kind
    raise NotFound(f"there is no kind {spelling!r}; there are {', '.join(sorted(_NAMESPACED))}")


def is_namespaced(kind: str) -> bool:
    """Whether objects of the kind live in a namespace."""
    return _NAMESPACED.get(kind, True)


def _plural(word: str) -> str:
    if word.endswith(("s", "ch")):
        return f"{word}es"
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
