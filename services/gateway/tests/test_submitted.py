"""What the gateway says of a job that it takes."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from muster_contracts import codec
from muster_contracts.envelope import MESSAGE_ID
from muster_contracts.events import WorkloadSubmitted
from muster_gateway import events
from muster_gateway.events import Cause
from muster_gateway.resolution import Resolved, Sender, resolve
from muster_manifests import load_object
from muster_runtime.publisher import Outgoing

from .house import job_manifest
from .test_resolution import catalogue_of, submission_of

MOMENTS = st.integers(0, 10**14)
DOCUMENT = load_object(job_manifest("train"), source="test")
RESOLVED = resolve(
    submission_of(job_manifest("train")), Sender(key="k", received_ms=1), catalogue_of()
)


def said(resolved: Resolved) -> Outgoing:
    cause = Cause(at_ms=resolved.workload.created_at_ms)
    return events.submitted(resolved, DOCUMENT, 7, cause)


def sent(at_ms: int, user: str) -> Resolved:
    workload = replace(RESOLVED.workload, created_at_ms=at_ms, user=user)
    return replace(RESOLVED, workload=workload)


@given(MOMENTS, MOMENTS, st.text(max_size=30), st.text(max_size=30))
def test_a_submission_is_the_same_message_whenever_it_comes(
    first_ms: int, again_ms: int, user: str, other: str
) -> None:
    first, again = said(sent(first_ms, user)), said(sent(again_ms, other))
    same = first.headers[MESSAGE_ID] == again.headers[MESSAGE_ID]
    assert same == (user == other)


@given(MOMENTS, st.text(max_size=30))
def test_the_fact_holds_the_workload_as_it_was_sent(at_ms: int, user: str) -> None:
    resolved = sent(at_ms, f'"created_at_ms":{at_ms},{user}')
    fact = codec.decode(WorkloadSubmitted, said(resolved).body)
    assert fact.workload == resolved.workload
    assert fact.manifest == DOCUMENT.manifest
