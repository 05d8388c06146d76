"""Which kinds are read, by whom, and in which versions; which are left alone, and why."""

from collections.abc import Callable
from dataclasses import dataclass

from muster_manifests.document import Content
from muster_manifests.jobs.apps import read_deployment, read_leader_worker_set, read_pod
from muster_manifests.jobs.batch import read_cron_job, read_job
from muster_manifests.jobs.jobset import read_job_set
from muster_manifests.jobs.kubeflow import (
    read_old_paddle_job,
    read_train_job,
    read_training_job,
)
from muster_manifests.jobs.model_serving import read_model_serving
from muster_manifests.jobs.ray import read_ray_cluster, read_ray_job, read_ray_service
from muster_manifests.jobs.spark import read_spark_application
from muster_manifests.kubernetes import (
    read_limit_range,
    read_namespace,
    read_node,
    read_priority_class,
    read_runtime_class,
)
from muster_manifests.kueue.configuration import read_configuration
from muster_manifests.kueue.flavors import (
    read_admission_check,
    read_provisioning_request_config,
    read_resource_flavor,
    read_topology,
    read_workload_priority_class,
)
from muster_manifests.kueue.queues import read_cluster_queue, read_cohort, read_local_queue
from muster_manifests.kueue.workload import read_workload
from muster_manifests.manifest import Manifest
from muster_manifests.money import read_budget, read_charging_policy, read_prices
from muster_manifests.reader import ObjectReader
from muster_manifests.volcano.flow import read_job_flow, read_job_template
from muster_manifests.volcano.job import read_volcano_job
from muster_manifests.volcano.pod_group import read_pod_group
from muster_manifests.volcano.queue import read_queue
from muster_manifests.volcano.scheduler import holds_scheduler, read_scheduler_map
from muster_manifests.volcano.topology import read_hyper_node

Parser = Callable[[Manifest], Content]


def _always(_body: ObjectReader) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class KindEntry:
    """How one kind is read: its versions, newest last, and whether it lives in a namespace.

    `default_name` is that of an object of which an installation has one and which may go unnamed.
    """

    versions: tuple[str, ...]
    parser: Parser
    namespaced: bool = True
    default_name: str = ""
    concerns: Callable[[ObjectReader], bool] = _always
    """Whether an object of the kind asks anything of Muster; one that does not is left alone."""


def _cluster_wide(parser: Parser, *versions: str) -> KindEntry:
    return KindEntry(versions=versions, parser=parser, namespaced=False)


def _namespaced(parser: Parser, *versions: str) -> KindEntry:
    return KindEntry(versions=versions, parser=parser)


KUEUE = "kueue.x-k8s.io"
KUBEFLOW = "kubeflow.org"
MUSTER = "muster.dev"
_BETAS = ("v1beta1", "v1beta2")

KINDS: dict[tuple[str, str], KindEntry] = {
    ("config.kueue.x-k8s.io", "Configuration"): KindEntry(
        versions=_BETAS, parser=read_configuration, namespaced=False, default_name="default"
    ),
    (KUEUE, "ResourceFlavor"): _cluster_wide(read_resource_flavor, *_BETAS),
    (KUEUE, "Topology"): _cluster_wide(read_topology, "v1alpha1", *_BETAS),
    (KUEUE, "AdmissionCheck"): _cluster_wide(read_admission_check, *_BETAS),
    (KUEUE, "ProvisioningRequestConfig"): _cluster_wide(read_provisioning_request_config, *_BETAS),
    (KUEUE, "WorkloadPriorityClass"): _cluster_wide(read_workload_priority_class, *_BETAS),
    (KUEUE, "ClusterQueue"): _cluster_wide(read_cluster_queue, *_BETAS),
    (KUEUE, "Cohort"): _cluster_wide(read_cohort, "v1alpha1", *_BETAS),
    (KUEUE, "LocalQueue"): _namespaced(read_local_queue, *_BETAS),
    (KUEUE, "Workload"): _namespaced(read_workload, *_BETAS),
    ("scheduling.volcano.sh", "Queue"): _cluster_wide(read_queue, "v1beta1"),
    ("scheduling.volcano.sh", "PodGroup"): _namespaced(read_pod_group, "v1beta1"),
    ("scheduling.x-k8s.io", "PodGroup"): _namespaced(read_pod_group, "v1alpha1"),
    ("batch.volcano.sh", "Job"): _namespaced(read_volcano_job, "v1alpha1"),
    ("flow.volcano.sh", "JobTemplate"): _namespaced(read_job_template, "v1alpha1"),
    ("flow.volcano.sh", "JobFlow"): _namespaced(read_job_flow, "v1alpha1"),
    ("topology.volcano.sh", "HyperNode"): _cluster_wide(read_hyper_node, "v1alpha1"),
    (MUSTER, "Budget"): _cluster_wide(read_budget, "v1alpha1"),
    (MUSTER, "ChargingPolicy"): _cluster_wide(read_charging_policy, "v1alpha1"),
    (MUSTER, "PriceList"): _cluster_wide(read_prices, "v1alpha1"),
    ("", "ConfigMap"): KindEntry(
        versions=("v1",), parser=read_scheduler_map, concerns=holds_scheduler
    ),
    ("", "Namespace"): _cluster_wide(read_namespace, "v1"),
    ("", "LimitRange"): _namespaced(read_limit_range, "v1"),
    ("node.k8s.io", "RuntimeClass"): _cluster_wide(read_runtime_class, "v1"),
    ("", "Node"): _cluster_wide(read_node, "v1"),
    ("", "Pod"): _namespaced(read_pod, "v1"),
    ("scheduling.k8s.io", "PriorityClass"): _cluster_wide(read_priority_class, "v1"),
    ("batch", "Job"): _namespaced(read_job, "v1"),
    ("batch", "CronJob"): _namespaced(read_cron_job, "v1beta1", "v1"),
    ("apps", "Deployment"): _namespaced(read_deployment, "v1"),
    ("apps", "StatefulSet"): _namespaced(read_deployment, "v1"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _namespaced(read_leader_worker_set, "v1"),
    ("jobset.x-k8s.io", "JobSet"): _namespaced(read_job_set, "v1alpha2"),
    ("ray.io", "RayJob"): _namespaced(read_ray_job, "v1alpha1", "v1"),
    ("ray.io", "RayCluster"): _namespaced(read_ray_cluster, "v1alpha1", "v1"),
    ("ray.io", "RayService"): _namespaced(read_ray_service, "v1alpha1", "v1"),
    (KUBEFLOW, "PyTorchJob"): _namespaced(read_training_job, "v1"),
    (KUBEFLOW, "TFJob"): _namespaced(read_training_job, "v1"),
    (KUBEFLOW, "XGBoostJob"): _namespaced(read_training_job, "v1"),
    (KUBEFLOW, "PaddleJob"): _namespaced(read_training_job, "v1"),
    (KUBEFLOW, "JAXJob"): _namespaced(read_training_job, "v1"),
    (KUBEFLOW, "MPIJob"): _namespaced(read_training_job, "v1", "v2beta1"),
    ("batch.paddlepaddle.org", "PaddleJob"): _namespaced(read_old_paddle_job, "v1"),
    ("trainer.kubeflow.org", "TrainJob"): _namespaced(read_train_job, "v1alpha1"),
    ("workload.serving.volcano.sh", "ModelServing"): _namespaced(read_model_serving, "v1alpha1"),
    ("sparkoperator.k8s.io", "SparkApplication"): _namespaced(read_spark_application, "v1beta2"),
}
"""Parsers by (API group, kind), but for AppWrapper, which holds objects of these kinds."""

LEFT_ALONE = frozenset({
    "ClusterRole", "ClusterRoleBinding", "ClusterTrainingRuntime", "ConfigMap",
    "CustomResourceDefinition", "DaemonSet", "DeviceClass", "Endpoints", "HorizontalPodAutoscaler",
    "Ingress", "MultiKueueCluster", "MultiKueueConfig",
    "NetworkPolicy", "Numatopology", "PersistentVolume", "PersistentVolumeClaim",
    "PodDisruptionBudget", "ResourceClaim", "ResourceClaimTemplate",
    "ResourceQuota", "Role", "RoleBinding", "Secret", "Service", "ServiceAccount",
    "ServiceMonitor", "StorageClass", "Template", "TrainingRuntime", "VirtualMachine",
    "VirtualMachineInstance",
})  # fmt: skip
"""Kinds that people keep beside their jobs and that ask nothing of Muster."""

RETIRED = {
    ("kueue.x-k8s.io", "Queue"): "write kind: LocalQueue with apiVersion: kueue.x-k8s.io/v1beta2",
    ("kueue.x-k8s.io", "QueuedWorkload"): (
        "write kind: Workload with apiVersion: kueue.x-k8s.io/v1beta2"
    ),
    ("kueue.x-k8s.io", "ClusterQueue"): (
        "write apiVersion: kueue.x-k8s.io/v1beta2 and resourceGroups: [{coveredResources: [cpu], "
        "flavors: [{name: default, resources: [{name: cpu, nominalQuota: 9}]}]}]; quota.min is "
        "nominalQuota, quota.max less quota.min is borrowingLimit"
    ),
    ("kueue.x-k8s.io", "ResourceFlavor"): (
        "write apiVersion: kueue.x-k8s.io/v1beta2 and the labels as spec.nodeLabels"
    ),
    ("scheduling.incubator.k8s.io", "PodGroup"): "write apiVersion: scheduling.volcano.sh/v1beta1",
    ("scheduling.incubator.k8s.io", "Queue"): "write apiVersion: scheduling.volcano.sh/v1beta1",
}
"""What to write instead of kinds and versions that their projects gave up."""
