"""What only several objects together show: pod groups, overlapping flavors, names used twice."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from muster_domain.queues import ClusterQueue, ResourceFlavor
from muster_domain.workload import Owner, PodSet
from muster_manifests.document import Document
from muster_manifests.plain import Plain
from muster_manifests.read_document import Loaded
from muster_manifests.submission import JobSubmission
from muster_manifests.volcano.pod_group import PodGroup, join_pod_group

KUEUE_POD_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_POD_GROUP_COUNT = "kueue.x-k8s.io/pod-group-total-count"
_SEPARATOR = "---\n"


@dataclass(frozen=True, slots=True)
class _Member:
    """A bare pod of a group."""

    loaded: Loaded
    document: Document
    submission: JobSubmission


def join(loaded: Sequence[Loaded]) -> tuple[Loaded, ...]:
    """Join what belongs together; the order of the file stays."""
    result = _join_pods(loaded)
    if len(result) > 1:
        _warn_overlapping_flavors(result)
        _warn_written_twice(result)
    return _apply_pod_groups(result)


def _join_pods(loaded: Sequence[Loaded]) -> list[Loaded]:
    """Make one job of all bare pods that name the same group."""
    groups: dict[tuple[str, str], list[_Member]] = {}
    result: list[Loaded | tuple[str, str]] = []
    for item in loaded:
        document = item.document
        key = _pod_group_key(document)
        if document is None or key is None or not isinstance(document.content, JobSubmission):
            result.append(item)
            continue
        if key not in groups:
            groups[key] = []
            result.append(key)
        groups[key].append(_Member(item, document, document.content))
    return [
        item if isinstance(item, Loaded) else _pod_group_job(item[1], groups[item])
        for item in result
    ]


def _pod_group_key(document: Document | None) -> tuple[str, str] | None:
    if document is None or document.kind != "Pod":
        return None
    if not isinstance(document.content, JobSubmission):
        return None
    submission = document.content
    group = submission.labels.get(KUEUE_POD_GROUP) or submission.pod_group
    return (document.namespace, group) if group else None


def _pod_group_job(name: str, members: Sequence[_Member]) -> Loaded:
    first = members[0]
    for member in members:
        _check_total(member, len(members))
    submission = replace(
        first.submission,
        owner=Owner(api_version="v1", kind="Pod", name=name),
        name=name,
        pod_sets=_merged_pod_sets(members),
    )
    document = replace(
        first.document,
        name=name,
        content=submission,
        manifest=_list_of(members),
        text=_joined_text([member.document.text for member in members]),
    )
    for member in members[1:]:
        first.loaded.report.take(member.loaded.report)
    return Loaded(document=document, report=first.loaded.report)


def _list_of(members: Sequence[_Member]) -> dict[str, Plain]:
    items: list[Plain] = [dict(member.document.manifest) for member in members]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _joined_text(texts: Sequence[str]) -> str:
    if not all(texts):
        return ""
    return _SEPARATOR.join(text if text.endswith("\n") else f"{text}\n" for text in texts)


def _check_total(member: _Member, found: int) -> None:
    written = member.submission.annotations.get(KUEUE_POD_GROUP_COUNT)
    if written is not None and written != str(found):
        member.loaded.report.rule(
            ("metadata", "annotations", KUEUE_POD_GROUP_COUNT),
            f"the group has {written} pods, {found} are here",
            "put all pods of the group into one file",
        )


def _merged_pod_sets(members: Sequence[_Member]) -> tuple[PodSet, ...]:
    """Count equal pods together; each set is named after its first pod."""
    merged: list[PodSet] = []
    for member in members:
        pod_set = replace(member.submission.pod_sets[0], name=member.document.name)
        for index, other in enumerate(merged):
            if _same_shape(other, pod_set):
                merged[index] = replace(other, count=other.count + 1)
                break
        else:
            merged.append(pod_set)
    return tuple(merged)


def _same_shape(left: PodSet, right: PodSet) -> bool:
    return replace(left, name="", count=1) == replace(right, name="", count=1)


def _apply_pod_groups(loaded: Iterable[Loaded]) -> tuple[Loaded, ...]:
    items = tuple(loaded)
    groups = {
        (item.document.namespace, item.document.name): item.document.content
        for item in items
        if item.document is not None and isinstance(item.document.content, PodGroup)
    }
    pods: dict[tuple[str, str], int] = {}
    for submission in (_submission(item) for item in items):
        if submission is not None:
            key = (submission.namespace, submission.pod_group)
            count = sum(pod_set.count for pod_set in submission.pod_sets)
            pods[key] = pods.get(key, 0) + count
    return tuple(_with_pod_group(item, groups, pods) for item in items)


def _submission(item: Loaded) -> JobSubmission | None:
    content = item.document.content if item.document is not None else None
    return content if isinstance(content, JobSubmission) else None


def _with_pod_group(
    item: Loaded,
    groups: dict[tuple[str, str], PodGroup],
    pods: dict[tuple[str, str], int],
) -> Loaded:
    submission = _submission(item)
    if item.document is None or submission is None:
        return item
    key = (submission.namespace, submission.pod_group)
    group = groups.get(key)
    if group is None:
        return item
    result = join_pod_group(submission, group, pods_in_group=pods[key])
    for finding in result.findings:
        tell = item.report.rule if finding.refused else item.report.warn
        tell((), finding.problem, finding.fix)
    return replace(item, document=replace(item.document, content=result.submission))


def _warn_overlapping_flavors(loaded: Iterable[Loaded]) -> None:
    """Warn of flavors that match the same nodes, so that one GPU counts in both."""
    flavors: list[tuple[ResourceFlavor, Loaded]] = []
    together: list[frozenset[str]] = []
    for item in loaded:
        content = item.document.content if item.document is not None else None
        if isinstance(content, ResourceFlavor):
            flavors.append((content, item))
        elif isinstance(content, ClusterQueue):
            together += [
                frozenset(quotas.flavor for quotas in group.flavors)
                for group in content.resource_groups
            ]
    for (left, _), (right, item) in combinations(flavors, 2):
        if left.name == right.name or left.node_labels != right.node_labels:
            continue
        alternatives = any({left.name, right.name} <= names for names in together)
        if left.node_labels or left.tolerations or right.tolerations or alternatives:
            item.report.warn(
                ("spec", "nodeLabels"),
                f"matches the same nodes as flavor {left.name}: their devices count twice",
                "give each flavor its own nodeLabels",
            )


def _warn_written_twice(loaded: Iterable[Loaded]) -> None:
    seen: dict[tuple[str, str], int] = {}
    for item in loaded:
        document = item.document
        if document is None:
            continue
        key = (document.api_version.rpartition("/")[0], document.key)
        if key in seen:
            item.report.warn(
                ("metadata", "name"),
                f"a second {document.kind} {document.name}: the later one counts",
                f"the first is in line {seen[key]}" if seen[key] else "",
            )
        seen[key] = document.mark.line
