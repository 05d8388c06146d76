"""Paths about jobs: submit, apply, plan, and what is wanted of jobs that are there."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query

from muster_contracts.api import (
    Accepted,
    Activation,
    CheckAnswer,
    Checkpoint,
    EndJob,
    Noted,
    Plans,
)
from muster_contracts.events import (
    ActivationRequested,
    CancelRequested,
    CheckAnswered,
    CheckpointReported,
    FinishReported,
    LeaseRenewed,
)
from muster_domain.conditions import Outcome
from muster_domain.errors import InvalidValue
from muster_gateway.bodies import Body, checked_lease, checked_name, read_body
from muster_gateway.http.dependencies import Call, Called, InNamespace, Sent
from muster_gateway.http.parameters import TEXT_MAX, SubmitParameters
from muster_gateway.submitting import Request as Submission
from muster_gateway.visibility import plan_for

router = APIRouter(tags=["jobs"])

MANIFEST: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/yaml": {"schema": {"type": "string"}},
            "application/json": {"schema": {"type": "object"}},
        },
    }
}
"""A manifest as YAML or JSON, a `SubmitJob`, or a CloudEvent around either."""

PAUSE_MAX_S = 30 * 24 * 3600
Reference = Annotated[str, "an id, the beginning of one, or namespace:name"]


@router.post("/v1/jobs", status_code=202, openapi_extra=MANIFEST)
async def submit(
    parameters: Annotated[SubmitParameters, Query()], call: Called, sent: Sent
) -> Accepted:
    """Take a file: its objects are applied, its jobs go to the log.

    Send an `Idempotency-Key` to be able to repeat the request. 202 says that the jobs are safe, not
    that they were admitted; `wait=decision` waits a little for the first word about each.
    """
    body = _body(sent, call, parameters.user, parameters.external_lease_ms)
    return await call.gateway.submitting.accept(
        Submission(
            caller=call.caller,
            body=body,
            namespace=checked_name(parameters.namespace, "namespace"),
            cause=call.cause,
            source=parameters.source,
            dry_run=parameters.dry_run,
            wait_s=parameters.wait_s if parameters.wait else 0.0,
        )
    )


@router.post("/v1/plan", openapi_extra=MANIFEST)
async def plan(
    call: Called,
    sent: Sent,
    namespace: InNamespace,
    source: Annotated[str, Query(max_length=TEXT_MAX)] = "request",
) -> Plans:
    """See what would become of the jobs of a file if they were submitted now."""
    body = _body(sent, call, "", None)
    plans = await call.gateway.submitting.plan(
        Submission(
            caller=call.caller, body=body, namespace=namespace, cause=call.cause, source=source
        )
    )
    visible = tuple(replace(job, plan=plan_for(call.caller, job.plan)) for job in plans.jobs)
    return replace(plans, jobs=visible)


@router.post("/v1/workloads/{reference}/cancel", status_code=202)
async def cancel(reference: Reference, call: Called, end: EndJob | None = None) -> Noted:
    """Ask for a workload to be ended."""
    message = end.message if end is not None else ""
    wish = CancelRequested(workload_id="", by=call.caller.name, message=message)
    return await call.gateway.wishes.say(reference, wish, call.caller, call.cause)


@router.post("/v1/workloads/{reference}/finish", status_code=202)
async def finish(reference: Reference, call: Called, end: EndJob) -> Noted:
    """Say that a job that runs elsewhere has ended, `Succeeded` or `Failed`."""
    wish = FinishReported(workload_id="", outcome=_reported(end.outcome), message=end.message)
    return await call.gateway.wishes.say(reference, wish, call.caller, call.cause)


@router.post("/v1/workloads/{reference}/heartbeat", status_code=202)
async def heartbeat(reference: Reference, call: Called) -> Noted:
    """Say that the holder of a job that runs elsewhere is alive."""
    wish = LeaseRenewed(workload_id="")
    return await call.gateway.wishes.say(reference, wish, call.caller, call.cause)


@router.post("/v1/workloads/{reference}/checkpoint", status_code=202)
async def checkpoint(reference: Reference, call: Called, saved: Checkpoint | None = None) -> Noted:
    """Say that a job has saved its work: what it does from now on is all that it can lose."""
    wish = CheckpointReported(
        workload_id="",
        at_ms=call.cause.at_ms,
        attempt=saved.attempt if saved is not None else 0,
    )
    return await call.gateway.wishes.say(reference, wish, call.caller, call.cause)


@router.post("/v1/workloads/{reference}/activation", status_code=202)
async def activate(reference: Reference, call: Called, wanted: Activation) -> Noted:
    """Take a workload out of the line, or put it back; of several wishes the latest holds."""
    wish = ActivationRequested(
        workload_id="", active=wanted.active, at_ms=call.cause.at_ms, by=call.caller.name
    )
    return await call.gateway.wishes.say(reference, wish, call.caller, call.cause)


@router.post("/v1/workloads/{reference}/checks/{check}", status_code=202)
async def answer_check(
    reference: Reference, check: str, call: Called, answer: CheckAnswer
) -> Noted:
    """Answer for an admission check of one attempt of a workload.

    The decision about the workload says which checks are asked, and of which attempt.
    """
    wish = CheckAnswered(
        workload_id="",
        attempt=answer.attempt,
        check=checked_name(check, "check"),
        state=answer.state,
        resize=answer.resize,
        by=call.caller.name,
        message=answer.message,
        requeue_after_ms=_pause_ms(answer.requeue_after_seconds),
        updates=answer.pod_set_updates,
        provisioning_class_details=answer.provisioning_class_details,
    )
    return await call.gateway.wishes.say(reference, wish, call.caller, call.cause)


def _pause_ms(seconds: int | None) -> int | None:
    if seconds is not None and not 0 <= seconds <= PAUSE_MAX_S:
        raise InvalidValue(
            f"{seconds} s is no pause",
            field="requeue_after_seconds",
            fix=f"write 0 to {PAUSE_MAX_S}",
        )
    return None if seconds is None else seconds * 1000


def _body(sent: bytes, call: Call, user: str, external_lease_ms: int | None) -> Body:
    body = read_body(sent, call.headers)
    return replace(
        body,
        user=user or body.user,
        external_lease_ms=checked_lease(
            external_lease_ms if external_lease_ms is not None else body.external_lease_ms
        ),
    )


def _reported(outcome: str) -> Outcome:
    if outcome in ("", Outcome.SUCCEEDED):
        return Outcome.SUCCEEDED
    if outcome == Outcome.FAILED:
        return Outcome.FAILED
    raise InvalidValue(
        f"{outcome[:60]!r} cannot be reported", field="outcome", fix="write Succeeded or Failed"
    )
