"""What guards pods and namespaces beside queues: disruption budgets and quotas."""

from muster_domain.volcano import DisruptionBudget, NamespaceQuota
from muster_manifests.manifest import Manifest
from muster_manifests.terms import read_label_selector


def read_disruption_budget(manifest: Manifest) -> DisruptionBudget:
    """Read a PodDisruptionBudget; how many may be disturbed is what its status says."""
    selector = manifest.body.object("spec").object("selector")
    status = manifest.body.object("status")
    return DisruptionBudget(
        namespace=manifest.metadata.namespace,
        name=manifest.metadata.name,
        selector=read_label_selector(selector) if selector.present else None,
        disruptions_allowed=status.integer("disruptionsAllowed"),
    )


def read_namespace_quota(manifest: Manifest) -> NamespaceQuota:
    """Read a ResourceQuota; the ceilings in force are those of its status."""
    spec, status = manifest.body.object("spec"), manifest.body.object("status")
    return NamespaceQuota(
        namespace=manifest.metadata.namespace,
        name=manifest.metadata.name,
        hard=status.quantities("hard") or spec.quantities("hard"),
        used=status.quantities("used"),
    )
