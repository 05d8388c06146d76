"""Which team a workload belongs to."""

from muster_domain.selectors import Labels

TEAM_LABEL = "muster.dev/team"
"""The label of a workload that names its team."""


def team_of(labels: Labels, namespace: str) -> str:
    """The team that the labels name, or else the one that is called like the namespace."""
    return labels.get(TEAM_LABEL) or namespace
