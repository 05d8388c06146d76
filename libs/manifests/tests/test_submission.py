import pytest

from muster_domain.errors import InvalidValue
from muster_domain.queues import PriorityClass
from muster_domain.workload import (
    External,
    LocalQueueRef,
    NetworkTopology,
    Owner,
    PodSet,
    QueueRef,
    VolcanoQueueRef,
    Workload,
)
from muster_manifests import (
    JobSubmission,
    ResolvedPriority,
    SubmissionContext,
    make_workload,
    resolve_priority,
)

OWNER = Owner(api_version="batch/v1", kind="Job", name="train")
POD_SETS = (PodSet(name="main", count=2, requests={"gpu": 1000}),)
CLASSES = (
    PriorityClass(name="release", value=900),
    PriorityClass(name="release", value=5, of_pods=True),
    PriorityClass(name="high", value=700, of_pods=True),
)
KUEUE_DEFAULT = PriorityClass(name="default", value=50)
POD_DEFAULT = PriorityClass(name="usual", value=20, of_pods=True, is_default=True)


def submission(
    *,
    queue: str = "research",
    volcano_queue: str = "",
    workload_class: str = "",
    pod_class: str = "",
    priority: int | None = None,
) -> JobSubmission:
    return JobSubmission(
        owner=OWNER,
        namespace="vision",
        name="train",
        pod_sets=POD_SETS,
        queue=queue,
        volcano_queue=volcano_queue,
        workload_priority_class=workload_class,
        priority_class=pod_class,
        priority=priority,
        max_execution_time_ms=60_000,
        network_topology=NetworkTopology(highest_tier=2),
        labels={"a": "b"},
        annotations={"c": "d"},
    )


def context(default: QueueRef | None = None) -> SubmissionContext:
    return SubmissionContext(
        id="w-1",
        created_at_ms=123,
        user="anna",
        priority_classes=CLASSES,
        default_queue=default,
        execution=External(lease_ms=9),
    )


def test_a_workload_is_the_submission_and_what_the_caller_knows() -> None:
    asked = submission(volcano_queue="vq", workload_class="release")
    assert make_workload(asked, context()) == Workload(
        id="w-1",
        namespace="vision",
        name="train",
        queue=LocalQueueRef(name="research"),
        pod_sets=POD_SETS,
        owner=OWNER,
        created_at_ms=123,
        priority=900,
        priority_class="release",
        execution=External(lease_ms=9),
        max_execution_time_ms=60_000,
        volcano_queue="vq",
        network_topology=NetworkTopology(highest_tier=2),
        user="anna",
        labels={"a": "b"},
        annotations={"c": "d"},
    )


@pytest.mark.parametrize(
    ("asked", "default", "queue", "volcano_queue"),
    [
        pytest.param(
            submission(volcano_queue="vq"), None, LocalQueueRef(name="research"), "vq", id="both"
        ),
        pytest.param(
            submission(queue="", volcano_queue="vq"),
            LocalQueueRef(name="default"),
            VolcanoQueueRef(name="vq"),
            "",
            id="Volcano's alone",
        ),
        pytest.param(
            submission(queue=""),
            LocalQueueRef(name="default"),
            LocalQueueRef(name="default"),
            "",
            id="none",
        ),
    ],
)
def test_where_a_workload_queues(
    asked: JobSubmission, default: QueueRef | None, queue: QueueRef, volcano_queue: str
) -> None:
    workload = make_workload(asked, context(default))
    assert (workload.queue, workload.volcano_queue) == (queue, volcano_queue)


def test_a_job_without_a_queue_is_refused_when_there_is_no_default() -> None:
    with pytest.raises(InvalidValue, match="names no queue"):
        make_workload(submission(queue=""), context())


@pytest.mark.parametrize(
    ("asked", "more", "expected"),
    [
        pytest.param(submission(), (), ResolvedPriority(value=0), id="nothing"),
        pytest.param(
            submission(workload_class="release", pod_class="high"),
            (KUEUE_DEFAULT, POD_DEFAULT),
            ResolvedPriority(value=900, class_name="release"),
            id="the label wins over the pods",
        ),
        pytest.param(
            submission(pod_class="release"),
            (POD_DEFAULT,),
            ResolvedPriority(value=5, class_name="release"),
            id="pods name their own kind of class",
        ),
        pytest.param(
            submission(pod_class="high"),
            (KUEUE_DEFAULT,),
            ResolvedPriority(value=50, class_name="default"),
            id="Kueue's default goes before the class of the pods",
        ),
        pytest.param(
            submission(queue="", volcano_queue="vq", pod_class="high"),
            (KUEUE_DEFAULT,),
            ResolvedPriority(value=700, class_name="high"),
            id="but not where Kueue has no say",
        ),
        pytest.param(
            submission(),
            (POD_DEFAULT,),
            ResolvedPriority(value=20, class_name="usual"),
            id="the default of pods",
        ),
        pytest.param(
            submission(workload_class="gone", priority=-7),
            (),
            ResolvedPriority(value=-7, class_name="gone"),
            id="a number wins over all",
        ),
    ],
)
def test_the_priority_of_a_job(
    asked: JobSubmission, more: tuple[PriorityClass, ...], expected: ResolvedPriority
) -> None:
    assert resolve_priority(asked, (*CLASSES, *more)) == expected


def test_of_two_defaults_the_lower_counts_whatever_the_order() -> None:
    other = PriorityClass(name="also", value=10, of_pods=True, is_default=True)
    for classes in ((POD_DEFAULT, other), (other, POD_DEFAULT)):
        assert resolve_priority(submission(), classes).value == 10


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        pytest.param(
            submission(workload_class="high"),
            "no WorkloadPriorityClass is named 'high', so the priority is 0; known are release",
            id="a class of pods under Kueue's label",
        ),
        pytest.param(
            submission(pod_class="low"),
            "no PriorityClass is named 'low', so the priority is 0; known are high, release",
            id="no such class",
        ),
    ],
)
def test_a_class_that_does_not_exist_counts_as_0_and_is_told(
    asked: JobSubmission, words: str
) -> None:
    found = resolve_priority(asked, CLASSES)
    assert (found.value, found.missing) == (0, words)


def test_without_any_class_none_is_named_as_known() -> None:
    found = resolve_priority(submission(pod_class="high"), ())
    assert found.missing == "no PriorityClass is named 'high', so the priority is 0"
