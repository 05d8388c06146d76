"""Lifecycle policies of a Volcano Job, held to the rules of its webhook."""

from muster_domain.job_policies import JobAction, JobEvent, JobPolicy
from muster_manifests.durations import duration_ms
from muster_manifests.reader import ObjectReader

_NAMES = {**{event.value: event for event in JobEvent}, "JobUnknown": JobEvent.UNKNOWN}


def read_policies(owner: ObjectReader) -> tuple[JobPolicy, ...]:
    """Read `policies`. What cannot be read is reported and left out."""
    seen: set[str] = set()
    found = [_read_policy(policy, seen) for policy in owner.objects("policies")]
    return tuple(policy for policy in found if policy is not None)


def _read_policy(policy: ObjectReader, seen: set[str]) -> JobPolicy | None:
    names = [*policy.texts("events"), *([policy.text("event")] if "event" in policy else [])]
    exit_code = policy.optional_integer("exitCode")
    timeout_ms = duration_ms(policy, "timeout")
    _check_trigger(policy, names, exit_code, timeout_ms)
    for trigger in [*names, *([f"exit code {exit_code}"] if exit_code is not None else [])]:
        if trigger in seen or (seen and "*" in (trigger, *seen)):
            policy.rule("event", f"a second policy for {trigger}", "keep one policy an event")
        seen.add(trigger)
    action = policy.required_text("action")
    if action not in set(JobAction):
        if action:
            known = ", ".join(JobAction)
            policy.rule("action", f"{action!r} is no action", f"write one of {known}")
        return None
    return JobPolicy(
        action=JobAction(action),
        events=tuple(dict.fromkeys(_NAMES[name] for name in names if name in _NAMES)),
        exit_code=exit_code,
        timeout_ms=timeout_ms,
    )


def _check_trigger(
    policy: ObjectReader, events: list[str], exit_code: int | None, timeout_ms: int | None
) -> None:
    if events and exit_code is not None:
        policy.rule("exitCode", "excludes event", "write two policies")
    if not events and exit_code is None:
        policy.rule("event", "missing", "write event: PodFailed")
    if exit_code == 0:
        policy.rule("exitCode", "0 is success, not an event", "write event: TaskCompleted")
    if JobEvent.POD_PENDING in events and timeout_ms is None:
        policy.rule("timeout", "missing for PodPending", "write timeout: 10m")
    for event in events:
        if event not in _NAMES:
            policy.rule("event", f"{event!r} is no event", f"write one of {', '.join(JobEvent)}")
