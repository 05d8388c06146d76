import pytest

from muster_domain.queues import VolcanoQueue
from muster_manifests.catalogue import Change, ObjectCatalogue, ObjectKey
from muster_manifests.problems import ManifestError

KUEUE = "kueue.x-k8s.io/v1beta1"


def cluster_queue(name: str, cohort: str = "") -> dict[str, object]:
    spec: dict[str, object] = {"namespaceSelector": {}}
    if cohort:
        spec["cohort"] = cohort
    return {
        "apiVersion": KUEUE,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": spec,
    }


def cohort(name: str, parent: str) -> dict[str, object]:
    return {
        "apiVersion": KUEUE,
        "kind": "Cohort",
        "metadata": {"name": name},
        "spec": {"parentName": parent},
    }


def local_queue(name: str, target: str) -> dict[str, object]:
    return {
        "apiVersion": KUEUE,
        "kind": "LocalQueue",
        "metadata": {"name": name},
        "spec": {"clusterQueue": target},
    }


def priority_class(name: str, value: int) -> dict[str, object]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def kueue_priority_class(name: str, value: int) -> dict[str, object]:
    return {
        "apiVersion": KUEUE,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def test_objects_stand_under_their_kind_until_removed() -> None:
    catalogue = ObjectCatalogue()
    catalogue.put(3, "", cluster_queue("gpu"))
    catalogue.put(5, "team-a", local_queue("main", "gpu"), by="anna", text="kind: LocalQueue\n")

    assert catalogue.sequence == 5
    assert catalogue.local_queues["team-a/main"].cluster_queue == "gpu"
    key = ObjectKey("LocalQueue", "team-a", "main")
    stored = catalogue.get(key)
    assert stored is not None
    assert (stored.by, stored.text, stored.sequence) == ("anna", "kind: LocalQueue\n", 5)
    assert [str(found.key) for found in catalogue.stored()] == [
        "ClusterQueue gpu",
        "LocalQueue team-a/main",
    ]

    catalogue.remove(6, key)
    assert catalogue.local_queues == {}
    assert catalogue.get(key) is None
    assert catalogue.sequence == 6


def test_pod_and_kueue_priorities_of_one_name_stand_side_by_side() -> None:
    catalogue = ObjectCatalogue()
    catalogue.put(1, "", priority_class("high", 10))
    catalogue.put(2, "", kueue_priority_class("high", 20))
    assert [(found.of_pods, found.value) for found in catalogue.priority_classes] == [
        (False, 20),
        (True, 10),
    ]
    catalogue.remove(3, ObjectKey("PriorityClass", "", "high"))
    assert [found.value for found in catalogue.priority_classes] == [20]


def test_the_default_volcano_queue_is_there_before_and_after_its_declaration() -> None:
    catalogue = ObjectCatalogue()
    unlimited = VolcanoQueue(name="default")
    assert catalogue.volcano_queues == {"default": unlimited}
    catalogue._show(VolcanoQueue(name="default", weight=7))
    catalogue._hide(catalogue.volcano_queues["default"])
    assert catalogue.volcano_queues == {"default": unlimited}


def test_root_follows_the_parents_of_cohorts() -> None:
    catalogue = ObjectCatalogue()
    catalogue.put(1, "", cluster_queue("a", "left"))
    assert catalogue.root_of("a") == "left"
    catalogue.put(2, "", cohort("left", "site"))
    assert catalogue.root_of("a") == "site"
    assert catalogue.root_of("nobody") == "cq:nobody"


def test_listeners_hear_what_changed() -> None:
    catalogue = ObjectCatalogue()
    heard: list[Change] = []
    catalogue.listeners.append(heard.append)
    catalogue.put(1, "", cluster_queue("a"))
    catalogue.put(2, "", cluster_queue("a", "gpu"))
    catalogue.remove(3, ObjectKey("ClusterQueue", "", "a"))
    catalogue.remove(4, ObjectKey("ClusterQueue", "", "a"))
    assert [(change.before is None, change.after is None) for change in heard] == [
        (True, False),
        (False, False),
        (False, True),
    ]
    assert [change.sequence for change in heard] == [1, 2, 3]


def test_a_copy_changes_alone() -> None:
    catalogue = ObjectCatalogue()
    catalogue.put(1, "", cluster_queue("a"))
    twin = catalogue.copy()
    twin.put(2, "", cluster_queue("b"))
    twin.remove(3, ObjectKey("ClusterQueue", "", "a"))
    assert set(catalogue.cluster_queues) == {"a"}
    assert set(twin.cluster_queues) == {"b"}


def test_an_unreadable_object_moves_the_position_and_changes_nothing() -> None:
    catalogue = ObjectCatalogue()
    with pytest.raises(ManifestError):
        catalogue.put(9, "", {"apiVersion": KUEUE, "kind": "ClusterQueue"})
    assert catalogue.sequence == 9
    assert catalogue.stored() == ()


def test_pod_groups_of_one_name_stand_apart_by_namespace() -> None:
    catalogue = ObjectCatalogue()
    for sequence, namespace in enumerate(("vision", "speech"), start=1):
        catalogue.put(
            sequence,
            namespace,
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": "ring"},
                "spec": {"minMember": sequence},
            },
        )
    catalogue.remove(3, ObjectKey("PodGroup", "vision", "ring"))
    (left,) = catalogue.stored("PodGroup")
    assert left.key.namespace == "speech"
