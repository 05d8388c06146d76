from muster_manifests import LoadOptions, WorkloadRecord, load_object
from muster_manifests.topology_requests import GROUP_NAME


def test_a_group_without_a_topology_still_names_its_pod_sets() -> None:
    manifest = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {
            "podSets": [
                {"name": name, "topologyRequest": {"podSetGroupName": "both"}}
                for name in ("leader", "workers")
            ]
        },
    }
    options = LoadOptions(admission_rules=False)
    record = load_object(manifest, source="f", options=options).content
    assert isinstance(record, WorkloadRecord)
    groups = [pods.annotations[GROUP_NAME] for pods in record.submission.pod_sets]
    assert groups == ["both", "both"]
    assert [pods.topology for pods in record.submission.pod_sets] == [None, None]
