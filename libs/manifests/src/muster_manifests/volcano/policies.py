"""Lifecycle policies of a Volcano Job, held to the rules of its webhook."""

from muster_manifests.reader import ObjectReader

_EVENTS = (
    "*", "PodFailed", "PodEvicted", "PodPending", "PodRunning", "JobUnknown", "Unknown",
    "TaskCompleted", "TaskFailed", "OutOfSync", "CommandIssued", "JobUpdated",
)  # fmt: skip
_INTERNAL_EVENTS = ("OutOfSync", "CommandIssued", "JobUpdated", "PodRunning")
_ACTIONS = (
    "AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob",
    "CompleteJob", "ResumeJob",
)  # fmt: skip


def check_policies(owner: ObjectReader) -> None:
    """Check `policies` and say that they are not acted upon."""
    seen: set[str] = set()
    for policy in owner.objects("policies"):
        events = [*policy.texts("events"), *([policy.text("event")] if "event" in policy else [])]
        policy.accept("event", "timeout")
        exit_code = policy.optional_integer("exitCode")
        _check_trigger(policy, events, exit_code)
        if exit_code is not None:
            events.append(f"exit code {exit_code}")
        for event in events:
            if event in seen or (seen and "*" in (event, *seen)):
                policy.rule("event", f"a second policy for {event}", "keep one policy an event")
            seen.add(event)
        action = policy.required_text("action")
        if action and action not in _ACTIONS:
            policy.rule("action", f"{action!r} is no action", f"write one of {', '.join(_ACTIONS)}")
    owner.not_acted_on("policies")


def _check_trigger(policy: ObjectReader, events: list[str], exit_code: int | None) -> None:
    if events and exit_code is not None:
        policy.rule("exitCode", "excludes event", "write two policies")
    if not events and exit_code is None:
        policy.rule("event", "missing", "write event: PodFailed")
    if exit_code == 0:
        policy.rule("exitCode", "0 is success, not an event", "write event: TaskCompleted")
    for event in events:
        if event not in _EVENTS or event in _INTERNAL_EVENTS:
            known = [name for name in _EVENTS if name not in _INTERNAL_EVENTS]
            policy.rule("event", f"{event!r} is no event", f"write one of {', '.join(known)}")
