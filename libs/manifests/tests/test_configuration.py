import re
from pathlib import Path

import pytest

from muster_domain.policy import (
    AdmissionFairSharing,
    FairSharing,
    FairStrategy,
    Improvements,
    Lifecycle,
    Policy,
    RequeueTimestamp,
    StrictScope,
    Transformation,
    TransformationStrategy,
)
from muster_manifests import KueueConfiguration, ManifestError, load
from muster_manifests.kueue.configuration import MUSTER_IMPROVEMENTS
from muster_manifests.kueue.gates import ALWAYS, NEVER, OF_KUBERNETES, SWITCHES

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
FINAL, INITIAL = FairStrategy.FINAL_SHARE, FairStrategy.INITIAL_SHARE


def read(text: str) -> KueueConfiguration:
    (document,) = load(HEAD + text, source="kueue.yaml").documents
    assert isinstance(document.content, KueueConfiguration)
    return document.content


def warnings(text: str) -> list[str]:
    return [str(warning) for warning in load(HEAD + text, source="f").warnings]


def test_an_empty_configuration_is_kueue_s_default() -> None:
    assert read("") == KueueConfiguration(name="default", policy=Policy(), lifecycle=Lifecycle())
    assert read("metadata: {name: mine}\n").name == "mine"


def test_a_configuration_with_everything() -> None:
    text = """
waitForPodsReady:
  timeout: 10m
  recoveryTimeout: 1m30s
  blockAdmission: true
  requeuingStrategy:
    {timestamp: Creation, backoffLimitCount: 5, backoffBaseSeconds: 2, backoffMaxSeconds: 9}
fairSharing: {preemptionStrategies: [LessThanInitialShare]}
admissionFairSharing:
  usageHalfLifeTime: 168h
  usageSamplingInterval: 500ms
  resourceWeights: {cpu: 0.5, nvidia.com/gpu: 2}
resources:
  quotaCheckStrategy: IgnoreUndeclared
  excludeResourcePrefixes: [networking.example.com/]
  transformations:
  - input: nvidia.com/mig-4g.5gb
    strategy: Replace
    outputs: {example.com/accelerator-memory: 5Ki, credits: -10}
    multiplyBy: tickets
objectRetentionPolicies: {workloads: {afterFinished: 1h, afterDeactivatedByKueue: 30m}}
featureGates: {PartialAdmission: false, FairSharingPrioritizeNonBorrowing: false}
muster: {preemptorClaims: true, strictFIFOScope: ResourceGroup, victimsByDomain: true}
"""
    assert warnings(text) == []
    assert read(text) == KueueConfiguration(
        name="default",
        policy=Policy(
            fair_sharing=FairSharing(strategies=(INITIAL,), prioritize_non_borrowing=False),
            admission_fair_sharing=AdmissionFairSharing(
                half_life_ms=168 * 3_600_000,
                sampling_ms=500,
                weights_milli={"cpu": 500, "nvidia.com/gpu": 2000},
            ),
            requeue_timestamp=RequeueTimestamp.CREATION,
            partial_admission=False,
            exclude_prefixes=("networking.example.com/",),
            transformations=(
                Transformation(
                    source="nvidia.com/mig-4g.5gb",
                    strategy=TransformationStrategy.REPLACE,
                    outputs_milli={
                        "example.com/accelerator-memory": 5 * 1024 * 1000,
                        "credits": -10_000,
                    },
                    multiply_by="tickets",
                ),
            ),
            ignore_undeclared=True,
            improvements=Improvements(
                preemptor_claims=True,
                strict_scope=StrictScope.RESOURCE_GROUP,
                victims_by_domain=True,
            ),
        ),
        lifecycle=Lifecycle(
            ready_ms=600_000,
            recovery_ms=90_000,
            block_admission=True,
            requeue_timestamp=RequeueTimestamp.CREATION,
            requeue_limit=5,
            requeue_base_ms=2000,
            requeue_max_ms=9000,
            keep_finished_ms=3_600_000,
            keep_deactivated_ms=1_800_000,
        ),
    )


def test_compatible_is_the_default_and_an_option_by_name_wins() -> None:
    assert read("muster: {kueueCompat: true}\n").policy == Policy()
    assert read("muster: {kueueCompat: false}\n").policy.improvements == MUSTER_IMPROVEMENTS
    one = read("muster: {kueueCompat: false, workloadsPerQueueAndCycle: 1}\n").policy.improvements
    assert (one.heads_per_cycle, one.preemptor_claims) == (1, True)


def test_what_has_no_effect_is_named_once_with_its_place() -> None:
    text = "leaderElection: {leaderElect: true}\nclientConnection: {qps: 50}\n"
    assert warnings(text) == [
        "f:1:1: of no effect outside Kubernetes: clientConnection, leaderElection"
    ]
    assert warnings("fairSharign: {}\n") == [
        "f:3:1: fairSharign: unknown field, ignored; did you mean fairSharing?"
    ]


@pytest.mark.parametrize(
    ("gate", "told"),
    [
        ("TopologyAwareScheduling: true", ""),
        ("TopologyAwareScheduling: false", "cannot be switched off: a flavor with a topologyName"),
        ("FastQuotaReleaseInPodIntegration: true", "cannot be switched on: quota comes back when"),
        ("FastQuotaReleaseInPodIntegration: false", ""),
        ("TLSOptions: true", "of no effect here: it is about objects"),
        ("KueueDRAIntegration: true", "of no effect here: devices are counted by resource name"),
        ("Typo: true", "no gate that is known; known are AdmissionFairSharing"),
    ],
)
def test_a_gate_that_is_no_switch_says_what_is_done_instead(gate: str, told: str) -> None:
    said = warnings(f"featureGates: {{{gate}}}\n")
    name = gate.split(":", maxsplit=1)[0]
    prefix = f"f:3:16: featureGates.{name}: {told}"
    assert [line[: len(prefix)] for line in said] == ([prefix] if told else [])


def test_gates_that_switch_a_part_of_the_configuration_off() -> None:
    gates = "featureGates: {AdmissionFairSharing: false, QuotaCheckStrategy: false}\n"
    text = gates + (
        "admissionFairSharing: {usageHalfLifeTime: 1h}\n"
        "resources: {quotaCheckStrategy: IgnoreUndeclared}\n"
    )
    assert read(text).policy == Policy()
    lifecycle = read("featureGates: {DisableWaitForPodsReady: true}\n").lifecycle
    assert (lifecycle.ready_ms, lifecycle.recovery_ms) == (None, None)


def test_every_gate_stands_in_the_documents_with_what_it_does() -> None:
    page = Path(__file__).parents[3] / "docs/operations/gates.md"
    rows = dict(re.findall(r"(?m)^\| `(\w+)` \| ([^|]+) \|", page.read_text()))
    told = {
        **dict.fromkeys(SWITCHES, "a switch"),
        **{name: f"always on: {why}" for name, why in ALWAYS.items()},
        **{name: f"always off: {why}" for name, why in NEVER.items()},
        **{name: f"of no effect: {why}" for name, why in OF_KUBERNETES.items()},
        "ConcurrentAdmission": "refused: nothing here makes variants of a workload",
    }
    assert rows == told


@pytest.mark.parametrize(
    ("text", "strategies"),
    [
        ("", None),
        ("fairSharing: {enable: false}\n", None),
        ("fairSharing: {enable: true}\n", (FINAL, INITIAL)),
        ("fairSharing: {preemptionStrategies: []}\n", (FINAL, INITIAL)),
        (f"fairSharing: {{preemptionStrategies: [{FINAL}]}}\n", (FINAL,)),
        (f"fairSharing: {{preemptionStrategies: [{FINAL}, {INITIAL}]}}\n", (FINAL, INITIAL)),
    ],
)
def test_fair_sharing_is_on_when_it_is_written(
    text: str, strategies: tuple[FairStrategy, ...] | None
) -> None:
    fair = read(text).policy.fair_sharing
    assert (None if fair is None else fair.strategies) == strategies


@pytest.mark.parametrize(
    ("text", "ready_ms", "recovery_ms"),
    [
        ("enable: false", None, None),
        ("timeout: 5m, recoveryTimeout: 0s", 300_000, None),
        ("timeout: 5m", 300_000, 300_000),
        ("timeout: 5m, recoveryTimeout: 10s", 300_000, 10_000),
    ],
)
def test_waiting_for_pods_can_be_switched_off_in_part_or_whole(
    text: str, ready_ms: int | None, recovery_ms: int | None
) -> None:
    lifecycle = read(f"waitForPodsReady: {{{text}}}\n").lifecycle
    assert (lifecycle.ready_ms, lifecycle.recovery_ms) == (ready_ms, recovery_ms)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Pod\n", "written twice"),
        ("waitForPodsReady: {timeout: soon}\n", "'soon' is not a duration"),
        ("waitForPodsReady: {timeout: 5}\n", "5 is not text"),
        ("fairSharing: {preemptionStrategies: [Never]}\n", "Never is not allowed"),
        (
            f"fairSharing: {{preemptionStrategies: [{INITIAL}, {FINAL}]}}\n",
            f"{INITIAL}, {FINAL} is not allowed",
        ),
        ("admissionFairSharing: {resourceWeights: {cpu: 1}}\n", "usageHalfLifeTime: missing"),
        ("featureGates: {X: 1}\n", "1 is not true or false"),
        ("admissionFairSharing: {usageHalfLifeTime: 1h, usageSamplingInterval: 0s}\n", "no time"),
        ("muster: {workloadsPerQueueAndCycle: 0}\n", "0 is out of range"),
        ("muster: {strictFIFOScope: Cohort}\n", "write Queue or ResourceGroup"),
        ("featureGates: {ConcurrentAdmission: true}\n", "ConcurrentAdmission: not offered"),
    ],
)
def test_a_configuration_that_is_refused(text: str, words: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(text)
    assert words in str(caught.value)


def test_the_gate_that_is_not_offered_may_be_off() -> None:
    text = "featureGates: {ConcurrentAdmission: false}\n"
    assert (read(text).policy, warnings(text)) == (Policy(), [])


def test_how_topologies_are_filled() -> None:
    text = "featureGates: {TASBalancedPlacement: true, TASProfileMixed: false}\n"
    assert warnings(text) == []
    assert read(text).policy == Policy(balanced_topology=True, least_free_topology=False)
