from collections.abc import Callable
from typing import Any

from muster_domain.checks import CapacityRetry, PodSetMergePolicy, ProvisioningRequestConfig

LoadContent = Callable[[str], Any]

PROVISIONING = """
    apiVersion: kueue.x-k8s.io/v1beta2
    kind: ProvisioningRequestConfig
    metadata: {name: spot}
    spec:
      provisioningClassName: queued
      managedResources: [nvidia.com/gpu]
      retryStrategy: {backoffLimitCount: 1, backoffMaxSeconds: 90}
      podSetMergePolicy: IdenticalPodTemplates
      podSetUpdates:
        nodeSelector:
        - {key: example.com/request, valueFromProvisioningClassDetail: RequestKey}
    """


def test_how_capacity_is_asked_for(
    load_content: LoadContent, warned: Callable[[str], list[tuple[str, str]]]
) -> None:
    assert load_content(PROVISIONING) == ProvisioningRequestConfig(
        name="spot",
        managed_resources=("nvidia.com/gpu",),
        retry=CapacityRetry(limit=1, base_ms=60_000, max_ms=90_000),
        node_selector_details={"example.com/request": "RequestKey"},
        merge_policy=PodSetMergePolicy.IDENTICAL_TEMPLATES,
    )
    assert warned(PROVISIONING) == []
