"""How many members a gang needs before it may start."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from muster_domain.workload import PodSet
from muster_manifests.submission import JobSubmission


@dataclass(frozen=True, slots=True, kw_only=True)
class GangFinding:
    """Something about a gang that its author should know; `refused` when it can never start."""

    problem: str
    fix: str
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GangResult:
    """A submission with its minimum, and what was found on the way."""

    submission: JobSubmission
    findings: tuple[GangFinding, ...] = ()


def with_min_member(
    submission: JobSubmission, min_member: int, by_pod_set: Mapping[str, int] | None = None
) -> GangResult:
    """Let the gang start with `min_member` pods.

    A pod set takes its minimum from `by_pod_set`; without one the minimum of a job with a single
    pod set is `min_member`. A minimum over several pod sets says nothing of which pods may be
    missing, so all of them start together.
    """
    pod_sets = submission.pod_sets
    total = sum(pod_set.count for pod_set in pod_sets)
    if by_pod_set:
        minima = [by_pod_set.get(pod_set.name, pod_set.count) for pod_set in pod_sets]
    elif len(pod_sets) == 1:
        minima = [min_member]
    else:
        minima = [pod_set.count for pod_set in pod_sets]
    findings: tuple[GangFinding, ...] = ()
    if not by_pod_set and len(pod_sets) > 1 and min_member < total:
        finding = GangFinding(
            problem=f"{min_member} of {total} pods says nothing of which: all {total} start "
            "together",
            fix="write a minimum for each task",
        )
        findings = (finding,)
    limited = tuple(map(_at_least, pod_sets, minima))
    return GangResult(submission=replace(submission, pod_sets=limited), findings=findings)


def _at_least(pod_set: PodSet, minimum: int) -> PodSet:
    if minimum >= pod_set.count:
        return pod_set
    return replace(pod_set, min_count=max(1, minimum))
