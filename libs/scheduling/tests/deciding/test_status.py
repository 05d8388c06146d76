"""What queues say of themselves, and what pods come to for quota."""

from dataclasses import replace

import pytest

from muster_domain.checks import ProvisioningRequestConfig
from muster_domain.queues import (
    AdmissionCheck,
    AdmissionCheckRule,
    ResourceFlavor,
    ResourceQuota,
    StopPolicy,
)
from muster_scheduling import (
    Policy,
    Transformation,
    TransformationStrategy,
    cluster_queue_usage,
    local_queue_usage,
)
from muster_scheduling.snapshot.activity import (
    InactiveReason,
    Surroundings,
    condition,
    inactive_checks,
    obstructions,
    terminating,
)
from muster_scheduling.snapshot.catalog import Catalog, Configuration
from muster_scheduling.snapshot.requests import charged_requests

from .builders import GPU, K, job, queue, running, view_of

CHECKS = {
    "pool": AdmissionCheck(name="pool", controller="example.com/pool"),
    "far": AdmissionCheck(name="far", controller="kueue.x-k8s.io/multikueue"),
    "farther": AdmissionCheck(name="farther", controller="kueue.x-k8s.io/multikueue"),
    "grow": AdmissionCheck(name="grow", controller="kueue.x-k8s.io/provisioning-request"),
}


def test_usage_tells_reserved_from_admitted_and_borrowed() -> None:
    view = view_of([queue("q", 4, "all"), queue("p", 4, "all")])
    running(view, job("a", "q", 3))
    running(view, job("b", "q", 3))
    view.mark_admitted("a")
    usage = cluster_queue_usage(view, "q")
    assert usage is not None
    assert (usage.reserving_workloads, usage.admitted_workloads) == (2, 1)
    reserved, used = usage.reserved[0].resources[0], usage.used[0].resources[0]
    assert (reserved.total_milli, reserved.borrowed_milli) == (6 * K, 2 * K)
    assert (used.total_milli, used.borrowed_milli) == (3 * K, 0)
    assert local_queue_usage(view, "ns/q") == usage
    assert local_queue_usage(view, "ns/nowhere") is None


def test_nothing_is_borrowed_without_a_cohort() -> None:
    view = view_of([queue("q", 2)])
    running(view, job("a", "q", 3))
    usage = cluster_queue_usage(view, "q")
    assert usage is not None
    assert usage.reserved[0].resources[0].borrowed_milli == 0


def activity(*rules: AdmissionCheckRule, inactive: str = "") -> tuple[str, str]:
    base = queue("q", 1)
    asked = type(base)(name="q", admission_checks=rules)
    around = Surroundings(
        flavors={}, checks=CHECKS, inactive_checks={inactive: ""} if inactive else {}
    )
    return condition(obstructions(asked, around))


@pytest.mark.parametrize(
    ("rules", "inactive", "reason"),
    [
        (["pool"], "", "Ready"),
        (["gone"], "", InactiveReason.ADMISSION_CHECK_NOT_FOUND),
        (["pool"], "pool", InactiveReason.ADMISSION_CHECK_INACTIVE),
        (["far", "farther"], "", InactiveReason.SEVERAL_MULTIKUEUE_CHECKS),
        (["far", "grow"], "", InactiveReason.MULTIKUEUE_WITH_PROVISIONING),
    ],
)
def test_checks_that_cannot_answer_keep_a_queue_inactive(
    rules: list[str], inactive: str, reason: str
) -> None:
    found = activity(*(AdmissionCheckRule(name=name) for name in rules), inactive=inactive)
    assert found[0] == reason


def test_a_check_of_many_clusters_is_not_for_one_flavor() -> None:
    rule = AdmissionCheckRule(name="far", on_flavors=("a100",))
    assert activity(rule)[0] == InactiveReason.MULTIKUEUE_CHECK_BY_FLAVOR


def test_a_check_of_many_clusters_may_name_every_flavor() -> None:
    asked = replace(
        queue("q", 1),
        admission_checks=(AdmissionCheckRule(name="far", on_flavors=("a100",)),),
    )
    around = Surroundings(flavors={"a100": ResourceFlavor(name="a100")}, checks=CHECKS)
    assert obstructions(asked, around) == ()


@pytest.mark.parametrize(
    ("checks", "reason"), [(("far",), "Ready"), ((), InactiveReason.TOPOLOGY_NOT_FOUND)]
)
def test_a_topology_that_is_missing_is_no_matter_where_other_clusters_seat(
    checks: tuple[str, ...], reason: str
) -> None:
    rules = tuple(AdmissionCheckRule(name=name) for name in checks)
    flavor = ResourceFlavor(name="a100", topology_name="racks")
    around = Surroundings(flavors={"a100": flavor}, topologies={}, checks=CHECKS)
    found = obstructions(replace(queue("q", 1), admission_checks=rules), around)
    assert condition(found)[0] == reason


REFERENCE = {
    "apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "burst",
}  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({}, "missing parameters reference"),
        (REFERENCE | {"name": ""}, "empty name: bad parameters reference"),
        (REFERENCE | {"apiGroup": "x"},
         'wrong group "x", expecting "kueue.x-k8s.io": bad parameters reference'),
        (REFERENCE | {"kind": "ConfigMap"},
         'wrong kind "ConfigMap", expecting "ProvisioningRequestConfig": bad parameters reference'),
        (REFERENCE | {"name": "gone"},
         'ProvisioningRequestConfig.kueue.x-k8s.io "gone" not found'),
        (REFERENCE, ""),
    ],
)  # fmt: skip
def test_a_capacity_check_is_inactive_without_its_configuration(
    parameters: dict[str, str], why: str
) -> None:
    controller = "kueue.x-k8s.io/provisioning-request"
    check = AdmissionCheck(name="grow", controller=controller, parameters=parameters)
    asked = replace(queue("q", 1), admission_checks=(AdmissionCheckRule(name="grow"),))
    configuration = Configuration(
        cluster_queues={"q": asked},
        flavors={"a100": ResourceFlavor(name="a100")},
        admission_checks={"grow": check},
        provisioning={"burst": ProvisioningRequestConfig(name="burst")},
    )
    found = Catalog(configuration).queues["q"].obstructions
    assert [obstruction.behind for obstruction in found] == ([f"grow: {why}"] if why else [])
    if why:
        message = "Can't admit new workloads: references inactive AdmissionCheck(s): grow."
        assert condition(found) == ("AdmissionCheckInactive", message)


def test_a_check_of_somebody_else_needs_no_configuration() -> None:
    checks = {"own": AdmissionCheck(name="own", controller="acme/licences")}
    assert inactive_checks(checks, {}) == {}


def test_several_causes_are_told_together() -> None:
    base = queue("q", 1)
    stopped = type(base)(
        name="q", stop_policy=StopPolicy.HOLD, resource_groups=base.resource_groups
    )
    found = obstructions(stopped, Surroundings(flavors={}))
    assert condition(found) == (
        "Stopped",
        "Can't admit new workloads: is stopped, references missing ResourceFlavor(s): a100.",
    )
    assert (
        condition((terminating(),))[1] == "Can't admit new workloads; clusterQueue is terminating"
    )


@pytest.mark.parametrize(
    ("requests", "transformation", "expected"),
    [
        ({"cpu": 300}, Transformation(source="cpu", outputs_milli={"c": 1_000_000}),
         {"cpu": 300, "c": 300_000}),
        ({"cpu": 300}, Transformation(source="cpu", outputs_milli={"c": 1},
                                      strategy=TransformationStrategy.REPLACE), {"c": K}),
        ({"mig": 2 * K, "mem": 3 * K},
         Transformation(source="mig", outputs_milli={"gb": 5000}, multiply_by="mem"),
         {"mig": 2 * K, "mem": 3 * K, "gb": 30 * K}),
        ({"cpu": 300}, Transformation(source="cpu", outputs_milli={"c": -1000}),
         {"cpu": 300, "c": 0}),
        ({"cpu": 300}, Transformation(source="gpu", outputs_milli={"c": 1000}), {"cpu": 300}),
    ],
)  # fmt: skip
def test_resources_are_made_of_others_exactly(
    requests: dict[str, int], transformation: Transformation, expected: dict[str, int]
) -> None:
    assert charged_requests(requests, Policy(transformations=(transformation,))) == expected


@pytest.mark.parametrize(
    ("resource", "amount", "charged"),
    [("cpu", 1, 1), ("cpu", 1999, 1999), (GPU, 500, K), (GPU, 2 * K, 2 * K), ("mem", 1500, 2 * K)],
)
def test_each_pod_is_charged_whole_units_of_all_but_cpu(
    resource: str, amount: int, charged: int
) -> None:
    assert charged_requests({resource: amount}, Policy()) == {resource: charged}


def test_quota_of_all_but_cpu_is_whole_units() -> None:
    limits = {"a100": ResourceFlavor(name="a100")}
    declared = queue("q", 1)
    (group,) = declared.resource_groups
    (flavor,) = group.flavors
    half = replace(flavor, resources={GPU: ResourceQuota(nominal_milli=2500)})
    asked = replace(declared, resource_groups=(replace(group, flavors=(half,)),))
    node = Catalog(Configuration(cluster_queues={"q": asked}, flavors=limits)).queues["q"].node
    assert node.nominal(("a100", GPU)) == 3 * K


def test_resources_with_an_excluded_prefix_are_free() -> None:
    policy = Policy(exclude_prefixes=("example.com/",))
    assert charged_requests({"example.com/nic": K, GPU: K}, policy) == {GPU: K}
