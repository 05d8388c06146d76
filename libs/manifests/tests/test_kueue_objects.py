from collections.abc import Callable
from typing import Any

import pytest

from muster_domain.queues import (
    UNLIMITED,
    AdmissionCheck,
    AdmissionCheckRule,
    BorrowWithinCohort,
    BorrowWithinCohortPolicy,
    ClusterQueue,
    Cohort,
    FlavorFungibility,
    FlavorQuotas,
    FungibilityPreference,
    LocalQueue,
    PlacementPolicy,
    PreemptionPolicy,
    PriorityClass,
    QueueingStrategy,
    ReclaimWithinCohort,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
    StopPolicy,
    Topology,
    WhenCan,
    WithinClusterQueue,
)
from muster_domain.selectors import (
    Requirement,
    Selector,
    SelectorOperator,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
)
from muster_manifests import LoadOptions, load

LoadContent = Callable[[str], Any]
Refused = Callable[[str], list[tuple[str, str]]]
Warned = Callable[[str], list[tuple[str, str]]]

FULL_QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: vision}
spec:
  cohortName: lab
  queueingStrategy: StrictFIFO
  namespaceSelector:
    matchLabels: {kubernetes.io/metadata.name: vision}
    matchExpressions:
    - {key: tier, operator: NotIn, values: [guest]}
  flavorFungibility:
    whenCanBorrow: TryNextFlavor
    whenCanPreempt: TryNextFlavor
    preference: PreemptionOverBorrowing
  preemption:
    withinClusterQueue: LowerOrNewerEqualPriority
    reclaimWithinCohort: Any
    borrowWithinCohort: {policy: LowerPriority, maxPriorityThreshold: 100}
  admissionChecksStrategy:
    admissionChecks:
    - {name: capacity, onFlavors: [spot]}
    - name: budget
  stopPolicy: Hold
  fairSharing: {weight: "0.75"}
  admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}
  resourceGroups:
  - coveredResources: [cpu, nvidia.com/gpu]
    flavors:
    - name: owned
      resources:
      - {name: cpu, nominalQuota: 1.5, borrowingLimit: 500m, lendingLimit: "1"}
      - {name: nvidia.com/gpu, nominalQuota: 1e1}
    - name: spot
      resources:
      - {name: cpu, nominalQuota: 0}
      - {name: nvidia.com/gpu, nominalQuota: "0"}
  - coveredResources: [memory]
    flavors:
    - name: ram
      resources: [{name: memory, nominalQuota: 2000G}]
"""


def test_a_cluster_queue_with_everything(load_content: LoadContent) -> None:
    assert load_content(FULL_QUEUE) == ClusterQueue(
        name="vision",
        cohort="lab",
        queueing_strategy=QueueingStrategy.STRICT_FIFO,
        namespace_selector=Selector(
            requirements=(
                Requirement(
                    key="kubernetes.io/metadata.name",
                    operator=SelectorOperator.IN,
                    values=("vision",),
                ),
                Requirement(key="tier", operator=SelectorOperator.NOT_IN, values=("guest",)),
            )
        ),
        flavor_fungibility=FlavorFungibility(
            when_can_borrow=WhenCan.TRY_NEXT_FLAVOR,
            when_can_preempt=WhenCan.TRY_NEXT_FLAVOR,
            preference=FungibilityPreference.PREEMPTION_OVER_BORROWING,
        ),
        preemption=PreemptionPolicy(
            within_cluster_queue=WithinClusterQueue.LOWER_OR_NEWER_EQUAL_PRIORITY,
            reclaim_within_cohort=ReclaimWithinCohort.ANY,
            borrow_within_cohort=BorrowWithinCohort(
                policy=BorrowWithinCohortPolicy.LOWER_PRIORITY, max_priority_threshold=100
            ),
        ),
        admission_checks=(
            AdmissionCheckRule(name="capacity", on_flavors=("spot",)),
            AdmissionCheckRule(name="budget"),
        ),
        stop_policy=StopPolicy.HOLD,
        fair_weight_milli=750,
        admission_fair_sharing=True,
        resource_groups=(
            ResourceGroup(
                covered_resources=("cpu", "nvidia.com/gpu"),
                flavors=(
                    FlavorQuotas(
                        flavor="owned",
                        resources={
                            "cpu": ResourceQuota(
                                nominal_milli=1500,
                                borrowing_limit_milli=500,
                                lending_limit_milli=1000,
                            ),
                            "nvidia.com/gpu": ResourceQuota(nominal_milli=10_000),
                        },
                    ),
                    FlavorQuotas(
                        flavor="spot",
                        resources={
                            "cpu": ResourceQuota(nominal_milli=0),
                            "nvidia.com/gpu": ResourceQuota(nominal_milli=0),
                        },
                    ),
                ),
            ),
            ResourceGroup(
                covered_resources=("memory",),
                flavors=(
                    FlavorQuotas(
                        flavor="ram",
                        resources={"memory": ResourceQuota(nominal_milli=2000 * 10**12)},
                    ),
                ),
            ),
        ),
    )


def queue(spec: str, version: str = "v1beta2") -> str:
    return (
        f"apiVersion: kueue.x-k8s.io/{version}\nkind: ClusterQueue\nmetadata: {{name: a}}\n"
        f"spec:\n  namespaceSelector: {{}}\n{spec}"
    )


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize("spelling", ["cohort", "cohortName"])
def test_either_spelling_of_the_cohort_under_either_version(
    load_content: LoadContent, version: str, spelling: str
) -> None:
    assert load_content(queue(f"  {spelling}: lab\n", version)).cohort == "lab"


@pytest.mark.parametrize("word", ["Borrow", "Preempt", "MayStopSearch"])
def test_older_words_of_fungibility_mean_may_stop_search(
    load_content: LoadContent, word: str
) -> None:
    spec = f"  flavorFungibility: {{whenCanBorrow: {word}, whenCanPreempt: {word}}}\n"
    fungibility = load_content(queue(spec)).flavor_fungibility
    assert fungibility.when_can_borrow is WhenCan.MAY_STOP_SEARCH
    assert fungibility.when_can_preempt is WhenCan.MAY_STOP_SEARCH


def test_plain_admission_checks_hold_for_every_flavor(load_content: LoadContent) -> None:
    checks = load_content(queue("  admissionChecks: [b, a]\n")).admission_checks
    assert checks == (AdmissionCheckRule(name="b"), AdmissionCheckRule(name="a"))


def test_an_empty_namespace_selector_takes_all_and_none_takes_none(
    load_content: LoadContent, warned: Callable[[str], list[tuple[str, str]]]
) -> None:
    assert load_content(queue("")).namespace_selector == Selector()
    without = queue("").replace("spec:\n  namespaceSelector: {}\n", "spec: {cohort: lab}\n")
    assert load_content(without).namespace_selector is None
    assert [field for field, _ in warned(without)] == ["spec.namespaceSelector"]


def group(resources: str, covered: str = "cpu", name: str = "f") -> str:
    return (
        f"  - coveredResources: [{covered}]\n    flavors:\n    - name: {name}\n"
        f"      resources: [{resources}]\n"
    )


def groups(*written: str) -> str:
    return "  resourceGroups:\n" + "".join(written)


CPU = "{name: cpu, nominalQuota: 4}"
MEMORY = "{name: memory, nominalQuota: 4}"


@pytest.mark.parametrize(
    ("spec", "field", "problem"),
    [
        pytest.param(
            groups(group("{name: cpu, nominalQuota: 4, borrowingLimit: 1}")),
            "spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit",
            "nothing is shared without a cohort",
            id="borrowing without cohort",
        ),
        pytest.param(
            groups(group("{name: cpu, nominalQuota: 4, lendingLimit: 1}")),
            "spec.resourceGroups[0].flavors[0].resources[0].lendingLimit",
            "nothing is shared without a cohort",
            id="lending without cohort",
        ),
        pytest.param(
            "  cohort: lab\n" + groups(group("{name: cpu, nominalQuota: 4, lendingLimit: 5}")),
            "spec.resourceGroups[0].flavors[0].resources[0].lendingLimit",
            "more than nominalQuota",
            id="lending more than nominal",
        ),
        pytest.param(
            groups(group("{name: cpu, nominalQuota: -1}")),
            "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota",
            "below zero",
            id="negative",
        ),
        pytest.param(
            groups(group("{name: cpu}")),
            "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota",
            "missing",
            id="no nominal",
        ),
        pytest.param(
            groups(group(CPU), group(CPU, name="g")),
            "spec.resourceGroups[1].coveredResources",
            "cpu is covered twice",
            id="resource in two groups",
        ),
        pytest.param(
            groups(group(CPU), group(MEMORY, covered="memory")),
            "spec.resourceGroups[1].flavors",
            "flavor f is used twice",
            id="flavor in two groups",
        ),
        pytest.param(
            groups(group(CPU, covered="cpu, memory")),
            "spec.resourceGroups[0].flavors[0].resources",
            "not the group's coveredResources: lacks memory",
            id="a flavor lacks a resource",
        ),
        pytest.param(
            groups(group(f"{CPU}, {MEMORY}")),
            "spec.resourceGroups[0].flavors[0].resources",
            "not the group's coveredResources: has memory besides",
            id="a flavor has one more",
        ),
        pytest.param(
            groups(group(f"{CPU}, {CPU}")),
            "spec.resourceGroups[0].flavors[0].resources[1].name",
            "cpu stands twice",
            id="a resource twice in a flavor",
        ),
        pytest.param(
            groups(
                *(group(f"{{name: r{n}, nominalQuota: 1}}", f"r{n}", f"f{n}") for n in range(17))
            ),
            "spec.resourceGroups",
            "17 resource groups",
            id="too many groups",
        ),
        pytest.param(
            groups(
                group(
                    ", ".join(f"{{name: r{n}, nominalQuota: 1}}" for n in range(65)),
                    ", ".join(f"r{n}" for n in range(65)),
                )
            ),
            "spec.resourceGroups",
            "65 resources in one group",
            id="too many resources",
        ),
        pytest.param(
            "  cohort: a\n  cohortName: b\n",
            "spec.cohort",
            "says 'a' where cohortName says 'b'",
            id="two cohorts",
        ),
        pytest.param(
            "  preemption: {borrowWithinCohort: {policy: LowerPriority}}\n",
            "spec.preemption.borrowWithinCohort.policy",
            "a queue that never reclaims cannot preempt while it borrows",
            id="borrowWithinCohort without reclaim",
        ),
        pytest.param(
            "  flavorFungibility: {preference: PreemptionOverBorrowing}\n",
            "spec.flavorFungibility.preference",
            "chooses among flavors only when the search goes on",
            id="preference without search",
        ),
        pytest.param(
            "  admissionChecks: [a]\n  admissionChecksStrategy: {admissionChecks: [{name: b}]}\n",
            "spec.admissionChecks",
            "excludes admissionChecksStrategy",
            id="checks twice",
        ),
        pytest.param(
            "  resources: [{name: cpu, flavors: [{name: f, quota: {min: 9}}]}]\n",
            "spec.resources",
            "the spelling of Kueue's first versions",
            id="first schema under a newer version",
        ),
        pytest.param(
            "  fairSharing: {weight: -1}\n", "spec.fairSharing.weight", "below zero", id="weight"
        ),
        pytest.param(
            "  admissionScope: {admissionMode: Fair}\n",
            "spec.admissionScope.admissionMode",
            "'Fair' is none of its values",
            id="admission mode",
        ),
        pytest.param(
            "  queueingStrategy: fifo\n",
            "spec.queueingStrategy",
            "'fifo' is none of its values",
            id="strategy",
        ),
    ],
)
def test_a_cluster_queue_that_kueue_refuses(
    refused: Refused, spec: str, field: str, problem: str
) -> None:
    assert refused(queue(spec)) == [(field, problem)]


def test_without_admission_rules_the_same_queue_is_taken() -> None:
    text = queue(groups(group("{name: cpu, nominalQuota: 4, borrowingLimit: 1}")))
    options = LoadOptions(admission_rules=False)
    (document,) = load(text, source="f", options=options).documents
    assert document.name == "a"


def test_another_order_of_resources_is_only_a_warning(
    warned: Callable[[str], list[tuple[str, str]]],
) -> None:
    text = queue(groups(group(f"{MEMORY}, {CPU}", covered="cpu, memory")))
    assert warned(text) == [
        (
            "spec.resourceGroups[0].flavors[0].resources",
            "Kueue wants the order of coveredResources",
        )
    ]


@pytest.mark.parametrize(
    ("resource", "written", "milli"),
    [
        pytest.param("memory", "1000000000Gi", 10**9 * 2**30 * 1000, id="large yet bounded"),
        pytest.param("memory", str(2**63 - 1), UNLIMITED, id="all of 64 bits"),
        pytest.param("memory", "16Ei", UNLIMITED, id="beyond 64 bits"),
        pytest.param("cpu", "9223372036854775", UNLIMITED, id="cpu counts thousandths"),
        pytest.param("cpu", "9223372036854774", 9223372036854774000, id="cpu just below"),
    ],
)
def test_what_exceeds_64_bits_is_no_limit(
    load_content: LoadContent, resource: str, written: str, milli: int
) -> None:
    text = queue(groups(group(f"{{name: {resource}, nominalQuota: {written}}}", resource)))
    quotas = load_content(text).resource_groups[0].flavors[0].resources
    assert quotas[resource].nominal_milli == milli


def test_a_cohort_with_its_own_quota(load_content: LoadContent) -> None:
    content = load_content("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: Cohort
        metadata: {name: lab}
        spec:
          parentName: university
          fairSharing: {weight: "0.25"}
          resourceGroups:
          - coveredResources: [cpu]
            flavors: [{name: f, resources: [{name: cpu, nominalQuota: 2, lendingLimit: 5}]}]
        """)
    assert content == Cohort(
        name="lab",
        parent="university",
        fair_weight_milli=250,
        resource_groups=(
            ResourceGroup(
                covered_resources=("cpu",),
                flavors=(
                    FlavorQuotas(
                        flavor="f",
                        resources={
                            "cpu": ResourceQuota(nominal_milli=2000, lending_limit_milli=5000)
                        },
                    ),
                ),
            ),
        ),
    )


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v1beta2"])
@pytest.mark.parametrize("spelling", ["parent", "parentName"])
def test_either_spelling_of_the_parent(
    load_content: LoadContent, version: str, spelling: str
) -> None:
    text = f"apiVersion: kueue.x-k8s.io/{version}\nkind: Cohort\nmetadata: {{name: a}}\n"
    assert load_content(text) == Cohort(name="a")
    assert load_content(f"{text}spec: {{{spelling}: b}}\n") == Cohort(name="a", parent="b")


def test_a_cohort_above_itself_is_refused(refused: Refused) -> None:
    text = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {name: a}\n"
    assert refused(text + "spec: {parentName: a}\n") == [
        ("spec.parentName", "a cohort above itself")
    ]


def test_a_resource_flavor(load_content: LoadContent) -> None:
    content = load_content("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ResourceFlavor
        metadata: {name: a100}
        spec:
          nodeLabels: {gpu: a100}
          nodeTaints: [{key: gpu, value: "yes", effect: NoSchedule}]
          tolerations:
          - {key: gpu, operator: Exists, effect: NoSchedule}
          - {key: pool, value: big}
          topologyName: room
        """)
    assert content == ResourceFlavor(
        name="a100",
        node_labels={"gpu": "a100"},
        node_taints=(Taint(key="gpu", value="yes", effect=TaintEffect.NO_SCHEDULE),),
        tolerations=(
            Toleration(
                key="gpu", operator=TolerationOperator.EXISTS, effect=TaintEffect.NO_SCHEDULE
            ),
            Toleration(key="pool", value="big"),
        ),
        topology_name="room",
    )


@pytest.mark.parametrize(
    ("spec", "field", "problem"),
    [
        pytest.param(
            "topologyName: room",
            "spec.topologyName",
            "a topology needs node labels",
            id="topology without labels",
        ),
        pytest.param(
            "nodeLabels: {" + ", ".join(f"l{n}: x" for n in range(9)) + "}",
            "spec.nodeLabels",
            "9 entries",
            id="nine labels",
        ),
        pytest.param(
            "nodeTaints: [{key: a}]", "spec.nodeTaints[0].effect", "missing", id="taint effect"
        ),
        pytest.param(
            "tolerations: [{value: a}]",
            "spec.tolerations[0].key",
            "a toleration without a key tolerates nothing",
            id="toleration without key",
        ),
        pytest.param(
            "tolerations: [{key: a, effect: Never}]",
            "spec.tolerations[0].effect",
            "'Never' is none of its values",
            id="toleration effect",
        ),
    ],
)
def test_a_flavor_that_kueue_refuses(refused: Refused, spec: str, field: str, problem: str) -> None:
    text = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: a}\n"
    assert refused(f"{text}spec:\n  {spec}\n") == [(field, problem)]


@pytest.mark.parametrize("policy", PlacementPolicy)
def test_a_flavor_says_how_pods_are_seated(
    load_content: LoadContent, policy: PlacementPolicy
) -> None:
    content = load_content(f"""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ResourceFlavor
        metadata: {{name: a, annotations: {{muster.dev/placement-policy: {policy}}}}}
        """)
    assert content == ResourceFlavor(name="a", placement_policy=policy)


def test_an_unknown_way_of_seating_is_refused(refused: Refused) -> None:
    text = """
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ResourceFlavor
        metadata: {name: a, annotations: {muster.dev/placement-policy: tight}}
        """
    key = 'metadata.annotations["muster.dev/placement-policy"]'
    assert refused(text) == [(key, "unknown: tight")]


def test_a_flavor_of_cards_that_take_turns_says_how_many(warned: Warned) -> None:
    text = """
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ResourceFlavor
        metadata: {name: a}
        spec:
          nodeLabels:
            nvidia.com/gpu.replicas: "4"
            nvidia.com/gpu.sharing-strategy: time-slicing
        """
    problem = "4 pods take turns on each card, with nothing between their memory"
    assert warned(text) == [("spec.nodeLabels", problem)]


def test_an_empty_flavor_matches_every_node(load_content: LoadContent) -> None:
    text = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ResourceFlavor\nmetadata: {name: a}\n"
    assert load_content(text) == load_content(f"{text}spec: {{}}\n") == ResourceFlavor(name="a")


def test_a_local_queue(load_content: LoadContent) -> None:
    content = load_content("""
        apiVersion: kueue.x-k8s.io/v1beta1
        kind: LocalQueue
        metadata: {name: train, namespace: vision}
        spec: {clusterQueue: gpu, stopPolicy: HoldAndDrain, fairSharing: {weight: 2}}
        """)
    assert content == LocalQueue(
        namespace="vision",
        name="train",
        cluster_queue="gpu",
        stop_policy=StopPolicy.HOLD_AND_DRAIN,
        fair_weight_milli=2000,
    )


def test_a_topology(load_content: LoadContent, refused: Refused) -> None:
    text = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Topology\nmetadata: {name: a}\nspec: "
    levels = "{levels: [{nodeLabel: block}, {nodeLabel: kubernetes.io/hostname}]}"
    assert load_content(text + levels) == Topology(
        name="a", levels=("block", "kubernetes.io/hostname")
    )
    assert refused(text + "{levels: []}") == [("spec.levels", "0 levels")]
    assert refused(text + "{levels: [{nodeLabel: a}, {nodeLabel: a}]}") == [
        ("spec.levels", "a label stands twice")
    ]
    assert refused(text + "{levels: [{nodeLabel: kubernetes.io/hostname}, {nodeLabel: a}]}") == [
        ("spec.levels", "kubernetes.io/hostname is not the lowest level")
    ]


def test_an_admission_check(load_content: LoadContent) -> None:
    content = load_content("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: AdmissionCheck
        metadata: {name: capacity}
        spec:
          controllerName: example.com/capacity
          parameters: {apiGroup: example.com, kind: Pool, name: spot}
        """)
    assert content == AdmissionCheck(
        name="capacity",
        controller="example.com/capacity",
        parameters={"apiGroup": "example.com", "kind": "Pool", "name": "spot"},
    )


def test_a_workload_priority_class(load_content: LoadContent, refused: Refused) -> None:
    text = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\n"
    text += "metadata: {name: release}\n"
    assert load_content(f"{text}value: 1000\ndescription: ships\n") == PriorityClass(
        name="release", value=1000, description="ships"
    )
    assert refused(text) == [("value", "missing")]
    assert refused(f"{text}value: high\n") == [("value", "high is not a whole number")]
