"""What people see of a workload that has other pods than it is to have."""

from muster.rendering.explain import explain
from muster.rendering.workloads import workload_table
from muster_contracts.queries import Phase, WorkloadDetail, WorkloadRow
from muster_domain.conditions import Explanation

from .examples import row, shown


def growing() -> WorkloadRow:
    return row(
        phase=Phase.RUNNING,
        reason="PodsReady",
        message="runs with 5 of 8 main pods and waits for more",
        pods=8,
        pods_now=5,
        nodes=("n1",),
        admitted_at_ms=0,
    )


def test_the_wide_table_has_the_pods_of_now_and_of_then() -> None:
    lines = shown(workload_table((growing(), row()), 60_000, wide=True))
    assert "5/8" in lines[1]
    assert "/1" not in lines[2]


def test_an_explanation_says_how_many_run_and_why_no_more() -> None:
    why = Explanation(reason="WaitingForQuota", message="3 more needed")
    lines = explain(WorkloadDetail(row=growing(), explanation=why), 60_000)
    assert lines[0].startswith("RUNNING  WaitingForQuota   on n1")
    assert "pods     runs with 5 of 8 main pods and waits for more" in lines
    assert lines[-1] == "because  3 more needed"
