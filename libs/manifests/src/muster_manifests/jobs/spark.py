"""SparkApplication: a driver and executors, sized in Spark's own words."""

import re

from muster_domain.quantity import Resources
from muster_domain.workload import Container, PodSet
from muster_manifests.jobs.job_metadata import JobSpec, make_submission
from muster_manifests.manifest import Manifest
from muster_manifests.pods import read_environment
from muster_manifests.reader import ObjectReader
from muster_manifests.submission import JobSubmission
from muster_manifests.terms import read_node_demand

_MEMORY = re.compile(r"([0-9]{1,12})([kmgtp]?)b?", re.IGNORECASE)
_UNITS = {"": 20, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_DEFAULT_MEMORY_BYTES = 1 << 30
_LEAST_OVERHEAD_BYTES = 384 << 20
_JVM_TYPES = ("Java", "Scala")
_FACTOR = re.compile(r"0?\.[0-9]{1,6}")


def read_spark_application(manifest: Manifest) -> JobSubmission:
    """Read a SparkApplication: the driver and its executors are pod sets of one gang.

    A pod asks for its heap and Spark's overhead: a tenth of the heap, four tenths when the program
    is not Java or Scala, and 384 MiB at the least.
    """
    spec = manifest.body.object("spec")
    spec.accept(
        "mode", "sparkVersion", "imagePullPolicy", "imagePullSecrets", "pythonVersion",
        "batchScheduler", "timeToLiveSeconds", "suspend", "proxyUser", "hadoopConf",
    )  # fmt: skip
    spec.not_acted_on(
        "mainClass", "mainApplicationFile", "arguments", "sparkConf", "deps",
        why="not acted upon: the pods run their images' own commands",
    )  # fmt: skip
    spec.not_acted_on(
        "volumes", "restartPolicy", "monitoring", "sparkConfigMap", "hadoopConfigMap",
        "failureRetries", "retryInterval", "driverIngressOptions", "sparkUIOptions",
    )  # fmt: skip
    batch = spec.object("batchSchedulerOptions")
    batch.accept("resources")
    executor = spec.object("executor")
    pod_sets = (
        _pod_set("driver", spec.object("driver"), spec, count=1),
        _pod_set("executor", executor, spec, count=_executors(spec, executor)),
    )
    return make_submission(
        manifest,
        (),
        pod_sets,
        JobSpec(priority_class=batch.text("priorityClassName"), volcano_queue=batch.text("queue")),
    )


def _executors(spec: ObjectReader, executor: ObjectReader) -> int:
    dynamic = spec.object("dynamicAllocation")
    dynamic.accept("shuffleTrackingTimeout", "shuffleTrackingEnabled")
    instances = executor.integer("instances", 1, low=0)
    if not dynamic.flag("enabled"):
        dynamic.accept("initialExecutors", "minExecutors", "maxExecutors")
        return instances
    dynamic.not_acted_on("maxExecutors")
    low = dynamic.integer("minExecutors", 0, low=0)
    return max(low, dynamic.integer("initialExecutors", instances, low=0))


def _pod_set(name: str, role: ObjectReader, spec: ObjectReader, *, count: int) -> PodSet:
    role.accept(
        "serviceAccount", "javaOptions", "coreLimit", "podName", "deleteOnTermination", "ports",
        "terminationGracePeriodSeconds", "serviceAnnotations", "serviceLabels",
    )  # fmt: skip
    role.not_acted_on(
        "volumeMounts", "securityContext", "podSecurityContext", "lifecycle", "initContainers",
        "sidecars", "configMaps", "secrets", "envFrom", "envVars", "hostNetwork", "dnsConfig",
        "hostAliases", "envSecretKeyRefs", "template", "schedulerName",
    )  # fmt: skip
    container = Container(
        name=f"spark-{name}",
        image=role.text("image") or spec.text("image"),
        environment=read_environment(role),
    )
    return PodSet(
        name=name,
        count=count,
        requests=_requests(role, spec),
        demand=read_node_demand(role),
        containers=(container,),
        labels=role.text_map("labels"),
        annotations=role.text_map("annotations"),
    )


def _requests(role: ObjectReader, spec: ObjectReader) -> Resources:
    cores = role.integer("cores", 1, low=1)
    core_request = role.quantity("coreRequest")
    memory = _memory_bytes(role, "memory")
    heap = _DEFAULT_MEMORY_BYTES if memory is None else memory
    overhead = _memory_bytes(role, "memoryOverhead")
    if overhead is None:
        overhead = max(_LEAST_OVERHEAD_BYTES, _ceil_millionths(heap * _factor_millionths(spec)))
    requests = {
        "cpu": cores * 1000 if core_request is None else core_request,
        "memory": (heap + overhead) * 1000,
    }
    gpu = role.object("gpu")
    if gpu.present:
        requests[gpu.required_text("name")] = gpu.integer("quantity", 1, low=1) * 1000
    return requests


def _factor_millionths(spec: ObjectReader) -> int:
    written = spec.text("memoryOverheadFactor")
    if written:
        if _FACTOR.fullmatch(written):
            return int(written.partition(".")[2].ljust(6, "0"))
        spec.problem("memoryOverheadFactor", f"{written!r} is not between 0 and 1", 'write "0.1"')
    return 100_000 if spec.text("type", "Scala") in _JVM_TYPES else 400_000


def _ceil_millionths(value: int) -> int:
    return -(-value // 1_000_000)


def _memory_bytes(role: ObjectReader, key: str) -> int | None:
    written = role.text(key)
    if not written:
        return None
    match = _MEMORY.fullmatch(written)
    if match is None:
        role.problem(key, f"{written!r} is not a Spark memory size", "write 512m or 4g")
        return None
    return int(match[1]) << _UNITS[match[2].lower()]
