import pytest

from muster_domain.queues import UndeclaredResources
from muster_domain.selectors import Requirement, Selector, SelectorOperator
from muster_manifests import KueueConfiguration, ManifestError, load_configuration
from muster_manifests.kueue.configuration import (
    AdmissionFairSharing,
    FairSharingStrategy,
    RequeuingTimestamp,
    Transformation,
    TransformationStrategy,
    WaitForPodsReady,
)

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
FINAL, INITIAL = FairSharingStrategy.FINAL_SHARE, FairSharingStrategy.INITIAL_SHARE


def read(text: str) -> KueueConfiguration:
    return load_configuration(HEAD + text, source="kueue.yaml")


def test_an_empty_configuration_is_kueue_s_default() -> None:
    assert read("") == KueueConfiguration()


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
manageJobsWithoutQueueName: true
managedJobsNamespaceSelector: {matchExpressions: [{key: managed, operator: Exists}]}
integrations: {frameworks: [batch/job, pod]}
metrics: {enableClusterQueueResources: true}
objectRetentionPolicies: {workloads: {afterFinished: 1h, afterDeactivatedByKueue: "0s"}}
featureGates: {PartialAdmission: false}
clientConnection: {qps: 50}
"""
    assert read(text) == KueueConfiguration(
        wait_for_pods_ready=WaitForPodsReady(
            timeout_ms=600_000,
            recovery_timeout_ms=90_000,
            block_admission=True,
            timestamp=RequeuingTimestamp.CREATION,
            backoff_limit=5,
            backoff_base_ms=2000,
            backoff_max_ms=9000,
        ),
        fair_sharing=(INITIAL,),
        admission_fair_sharing=AdmissionFairSharing(
            usage_half_life_ms=168 * 3_600_000,
            usage_sampling_interval_ms=500,
            resource_weights_milli={"cpu": 500, "nvidia.com/gpu": 2000},
        ),
        undeclared_resources=UndeclaredResources.IGNORE,
        exclude_resource_prefixes=("networking.example.com/",),
        transformations=(
            Transformation(
                resource="nvidia.com/mig-4g.5gb",
                strategy=TransformationStrategy.REPLACE,
                outputs={"example.com/accelerator-memory": 5 * 1024 * 1000, "credits": -10_000},
                multiply_by="tickets",
            ),
        ),
        manage_jobs_without_queue_name=True,
        managed_jobs_namespaces=Selector(
            requirements=(Requirement(key="managed", operator=SelectorOperator.EXISTS),)
        ),
        frameworks=("batch/job", "pod"),
        cluster_queue_metrics=True,
        keep_finished_ms=3_600_000,
        keep_deactivated_ms=0,
        feature_gates={"PartialAdmission": False},
    )


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
    text: str, strategies: tuple[FairSharingStrategy, ...] | None
) -> None:
    assert read(text).fair_sharing == strategies


def test_waiting_for_pods_can_be_switched_off_in_part_or_whole() -> None:
    assert read("waitForPodsReady: {enable: false}\n").wait_for_pods_ready is None
    never = read("waitForPodsReady: {timeout: 5m, recoveryTimeout: 0s}\n").wait_for_pods_ready
    assert never == WaitForPodsReady(timeout_ms=300_000, recovery_timeout_ms=None)
    same = read("waitForPodsReady: {timeout: 5m}\n").wait_for_pods_ready
    assert same == WaitForPodsReady(timeout_ms=300_000, recovery_timeout_ms=300_000)


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
        ("---\na: 1\n", "not one object"),
    ],
)
def test_a_configuration_that_is_refused(text: str, words: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(text)
    assert words in str(caught.value)


def test_something_else_is_no_configuration() -> None:
    for text in ("", "apiVersion: v1\nkind: Configuration\n"):
        with pytest.raises(ManifestError, match="not"):
            load_configuration(text, source="f")
