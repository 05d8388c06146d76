"""Variants of a workload: whose they are, and how their queue lets them migrate."""

from collections.abc import Callable
from typing import Any

import pytest

from muster_domain.queues import ConcurrentAdmission, MigrationMode
from muster_manifests import load

LoadContent = Callable[[str], Any]
Refused = Callable[[str], list[tuple[str, str]]]

VARIANTS = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: q}
spec:
  namespaceSelector: {}
  concurrentAdmissionPolicy:
    migration: {mode: RetainFirstAdmission, constraints: {lastAcceptableFlavorName: NAME}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: reservation, resources: [{name: cpu, nominalQuota: 1}]}
    - {name: spot, resources: [{name: cpu, nominalQuota: 1}]}
"""


def test_how_variants_migrate_is_read_and_said_to_have_no_effect(
    load_content: LoadContent, refused: Refused
) -> None:
    text = VARIANTS.replace("NAME", "spot")
    assert load_content(text).concurrent_admission == ConcurrentAdmission(
        mode=MigrationMode.RETAIN_FIRST_ADMISSION, last_acceptable_flavor="spot"
    )
    (warning,) = load(text, source="f").warnings
    assert "concurrentAdmissionPolicy: of no effect" in str(warning)
    ((field, problem),) = refused(VARIANTS.replace("NAME", "other"))
    assert field.endswith("lastAcceptableFlavorName")
    assert problem == "'other' is no flavor of the first resource group"


@pytest.mark.parametrize(
    ("owner", "parent"),
    [
        ("{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, name: p, uid: u-1}", "u-1"),
        ("{apiVersion: batch/v1, kind: Job, name: p, uid: u-1}", ""),
    ],
)
def test_a_workload_is_a_variant_of_the_workload_that_owns_it(
    load_content: LoadContent, owner: str, parent: str
) -> None:
    text = f"""
    apiVersion: kueue.x-k8s.io/v1beta2
    kind: Workload
    metadata: {{name: w, namespace: n, ownerReferences: [{owner}]}}
    spec:
      podSets:
      - {{name: main, template: {{spec: {{containers: [{{name: c}}]}}}}}}
    """
    assert load_content(text).parent == parent
