from typing import Any

import pytest

from muster_contracts.partitions import partition_of
from muster_domain.errors import Conflict, InvalidValue, NotFound
from muster_domain.queue_tree import VOLCANO_PREFIX
from muster_domain.workload import External, LocalQueueRef, Managed, VolcanoQueueRef
from muster_gateway.changes import (
    Effect,
    check_deletable,
    doubts,
    moves,
    plan_changes,
    without,
)
from muster_gateway.intake import job_of, resolve_jobs
from muster_gateway.kinds import is_namespaced, kind_of
from muster_gateway.resolution import Resolved, Sender, resolve
from muster_manifests import JobSubmission, load, load_object
from muster_manifests.catalogue import ObjectCatalogue, ObjectKey

from .house import BASE, job_manifest

SENDER = Sender(key="k", received_ms=1000, user="anna")


def catalogue_of(text: str = BASE) -> ObjectCatalogue:
    catalogue = ObjectCatalogue()
    for number, document in enumerate(load(text, source="test").documents, start=1):
        catalogue.put_document(number, document)
    return catalogue


def submission_of(manifest: dict[str, Any]) -> JobSubmission:
    submission = job_of(load_object(manifest, source="test"))
    assert submission is not None
    return submission


def resolved(manifest: dict[str, Any], sender: Sender = SENDER, text: str = BASE) -> Resolved:
    return resolve(submission_of(manifest), sender, catalogue_of(text))


def test_the_way_from_a_local_queue_to_a_partition() -> None:
    found = resolved(job_manifest())
    assert found.workload.queue == LocalQueueRef(name="main")
    assert (found.cluster_queue, found.partition) == ("gpus", partition_of("site"))
    assert found.workload.execution == Managed()
    alone = resolved(job_manifest(), text=BASE.replace("  cohort: site\n", ""))
    assert alone.partition == partition_of("cq:gpus")
    below = BASE + (
        "---\napiVersion: kueue.x-k8s.io/v1beta1\nkind: Cohort\nmetadata: {name: site}\n"
        "spec: {parentName: company}\n"
    )
    assert resolved(job_manifest(), text=below).partition == partition_of("company")


def test_the_id_follows_from_the_submission_alone() -> None:
    first = resolved(job_manifest()).workload.id
    later = Sender(key="k", received_ms=9999, user="bob")
    assert resolved(job_manifest(gpus=4), later).workload.id == first
    others = {
        resolved(job_manifest(), Sender(key="k2", received_ms=1)).workload.id,
        resolved(job_manifest("other")).workload.id,
        resolved(job_manifest(namespace="team-b", queue="default")).workload.id,
    }
    assert len(others | {first}) == 4


def test_what_the_sender_adds() -> None:
    sender = Sender(
        key="k", received_ms=7, user="anna", external_lease_ms=9000, labels={"run": "42"}
    )
    workload = resolved(job_manifest(), sender).workload
    assert workload.execution == External(lease_ms=9000)
    assert workload.labels["run"] == "42"
    assert (workload.user, workload.created_at_ms) == ("anna", 7)


def volcano_job(**spec: object) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "resources": {}}]}
    task = {"name": "w", "replicas": 1, "template": {"spec": pod}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "vj", "namespace": "team-a"},
        "spec": {"tasks": [task], **spec},
    }


def test_a_volcano_job_without_a_queue_takes_volcanos_default() -> None:
    found = resolved(volcano_job())
    assert found.workload.queue == VolcanoQueueRef(name="default")
    assert found.partition == partition_of(VOLCANO_PREFIX)
    with pytest.raises(InvalidValue, match="Volcano queue named 'nope'"):
        resolved(volcano_job(queue="nope"))


def test_a_job_of_both_worlds_is_charged_to_its_local_queue() -> None:
    manifest = volcano_job(queue="default")
    manifest["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "main"}
    found = resolved(manifest)
    assert found.cluster_queue == "gpus"
    assert found.workload.volcano_queue == "default"
    manifest["spec"]["queue"] = "nope"
    with pytest.raises(InvalidValue, match="nope"):
        resolved(manifest)


def test_of_two_jobs_of_one_name_the_later_counts() -> None:
    documents = [load_object(job_manifest(gpus=gpus), source="test") for gpus in (1, 2)]
    [job] = resolve_jobs(documents, SENDER, catalogue_of())
    assert job.resolved.workload.total_requests["nvidia.com/gpu"] == 2000


def changed(*edits: tuple[str, str]) -> str:
    text = BASE
    for old, new in edits:
        text = text.replace(old, new)
    return text


def test_what_applying_would_do() -> None:
    before = catalogue_of()
    text = changed(("nominalQuota: 8", "nominalQuota: 4")) + (
        "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team-a}\n"
    )
    change = plan_changes(load(text, source="test").documents, before)
    assert [(str(plan.key), plan.effect) for plan in change.planned] == [
        ("ResourceFlavor a100", Effect.UNCHANGED),
        ("ClusterQueue gpus", Effect.CONFIGURED),
        ("LocalQueue team-a/main", Effect.UNCHANGED),
        ("LocalQueue team-b/default", Effect.UNCHANGED),
        ("Namespace team-a", Effect.CREATED),
    ]
    assert [plan.key.name for plan in change.changed] == ["gpus", "team-a"]
    assert set(before.namespaces) == set()


def test_queues_that_would_change_their_tree() -> None:
    before = catalogue_of()
    after = catalogue_of(changed(("cohort: site", "cohort: other")))
    [move] = moves(before, after)
    assert (move.cluster_queue, move.old_root, move.new_root) == ("gpus", "site", "other")
    assert move.old_partition == partition_of("site")
    assert moves(before, before) == ()
    gone = without(ObjectKey("ClusterQueue", "", "gpus"), before)
    assert moves(before, gone) == ()
    assert "gpus" in before.cluster_queues


def test_a_cohort_that_gets_a_parent_moves_its_queues() -> None:
    before = catalogue_of()
    cohort = (
        "---\napiVersion: kueue.x-k8s.io/v1beta1\nkind: Cohort\nmetadata: {name: site}\n"
        "spec: {parentName: company}\n"
    )
    after = catalogue_of(BASE + cohort)
    assert [move.new_root for move in moves(before, after)] == ["company"]
    assert [move.new_root for move in moves(after, before)] == ["site"]


@pytest.mark.parametrize(
    ("edit", "doubt"),
    [
        (("- name: a100", "- name: ghost"), "'ghost'"),
        (("  namespaceSelector: {}\n", ""), "no namespaceSelector"),
        (("  namespaceSelector", "  admissionChecks: [prov]\n  namespaceSelector"), "'prov'"),
    ],
)
def test_doubts_about_a_queue(edit: tuple[str, str], doubt: str) -> None:
    found = doubts([ObjectKey("ClusterQueue", "", "gpus")], catalogue_of(changed(edit)))
    assert len(found) == 1
    assert doubt in found[0]


def test_doubts_about_a_capacity_check() -> None:
    check = (
        "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: AdmissionCheck\nmetadata: {name: grow}\n"
        "spec: {controllerName: kueue.x-k8s.io/provisioning-request}\n"
    )
    (doubt,) = doubts([ObjectKey("AdmissionCheck", "", "grow")], catalogue_of(BASE + check))
    assert doubt.endswith("is inactive, and every queue with it: missing parameters reference")


def test_no_doubts_about_what_is_whole() -> None:
    catalogue = catalogue_of()
    assert doubts([stored.key for stored in catalogue.stored()], catalogue) == ()


def test_what_others_refer_to_stays() -> None:
    catalogue = catalogue_of()
    with pytest.raises(Conflict, match="ClusterQueue gpus"):
        check_deletable(ObjectKey("ResourceFlavor", "", "a100"), catalogue)
    with pytest.raises(Conflict, match="team-a/main, LocalQueue team-b/default"):
        check_deletable(ObjectKey("ClusterQueue", "", "gpus"), catalogue)
    check_deletable(ObjectKey("LocalQueue", "team-a", "main"), catalogue)


@pytest.mark.parametrize(
    ("spelling", "kind"),
    [
        ("cq", "ClusterQueue"),
        ("ClusterQueue", "ClusterQueue"),
        ("clusterqueues", "ClusterQueue"),
        ("lq", "LocalQueue"),
        ("topologies", "Topology"),
        ("priorityclasses", "PriorityClass"),
        ("wpc", "WorkloadPriorityClass"),
        ("queues", "Queue"),
        ("vq", "Queue"),
    ],
)
def test_what_people_call_kinds(spelling: str, kind: str) -> None:
    assert kind_of(spelling) == kind


def test_unknown_kinds() -> None:
    with pytest.raises(NotFound):
        kind_of("teapot")
    assert not is_namespaced("ClusterQueue")
    assert is_namespaced("LocalQueue")
