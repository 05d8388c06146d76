"""JobFlows: what follows is submitted once what it depends on has completed, and only once."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from muster_contracts import codec, subjects
from muster_contracts.api import FlowView
from muster_contracts.events import WorkloadSubmitted
from muster_contracts.jobs import Decision, Verdict
from muster_contracts.streams import EVENTS
from muster_domain.conditions import Outcome
from muster_domain.job_flow import FlowPhase, StepState
from muster_gateway.flows import Flows
from muster_runtime.publisher import Outgoing
from muster_testing.connection import until

from .house import House

pytestmark = pytest.mark.servers

TEMPLATE = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {name: NAME, namespace: team-a}
spec:
  tasks:
    - name: main
      template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}
---
"""
FLOW = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: nightly, namespace: team-a}
spec:
  flows:
    - {name: fetch}
    - {name: clean}
    - {name: train, dependsOn: {targets: [fetch, clean]}}
"""
ALL = "".join(TEMPLATE.replace("NAME", name) for name in ("fetch", "clean", "train")) + FLOW


def submitted(house: House) -> dict[str, WorkloadSubmitted]:
    return {fact.workload.name: fact for fact in house.admission.submitted.values()}


async def until_submitted(house: House, *names: str) -> None:
    await until(lambda: set(submitted(house)) >= set(names), 60)


async def say(house: House, name: str, verdict: Verdict, outcome: Outcome | None = None) -> None:
    """Admission decides about the job of that name, after it has said that it waits."""
    decision = replace(await last_decision(house, name), decision=verdict, outcome=outcome)
    subject = subjects.decision("team-a", name)
    await house.bus.publish([Outgoing(subject=subject, body=codec.encode(decision))])


async def last_decision(house: House, name: str) -> Decision:
    async with asyncio.timeout(60):
        while True:
            last = await house.gateway.decisions.last("team-a", name)
            if last is not None:
                return last


async def look(house: House) -> FlowView:
    async with house.client() as client:
        answer = await client.get("/v1/jobflows/nightly", params={"namespace": "team-a"})
    assert answer.status_code == 200, answer.text
    return codec.decode(FlowView, answer.content)


def states(flow: FlowView) -> dict[str, StepState]:
    return {step.name: step.state for step in flow.steps}


async def test_a_step_is_submitted_once_its_targets_have_completed(house: House) -> None:
    await house.apply(ALL)
    await until_submitted(house, "nightly-fetch", "nightly-clean")
    first = submitted(house)["nightly-fetch"].workload
    assert first.labels["volcano.sh/job-flow-name"] == "nightly"
    assert first.user == "root"
    await until_phase(house, FlowPhase.PENDING, train=StepState.BLOCKED)
    await say(house, "nightly-fetch", Verdict.FINISHED, Outcome.SUCCEEDED)
    await say(house, "nightly-clean", Verdict.ADMITTED)
    await until_phase(house, FlowPhase.RUNNING, clean=StepState.RUNNING, train=StepState.BLOCKED)
    assert "nightly-train" not in submitted(house)
    await say(house, "nightly-clean", Verdict.FINISHED, Outcome.SUCCEEDED)
    await until_submitted(house, "nightly-train")
    await until_phase(house, FlowPhase.RUNNING, train=StepState.PENDING)
    await say(house, "nightly-train", Verdict.FINISHED, Outcome.SUCCEEDED)
    await until_phase(house, FlowPhase.SUCCEED, train=StepState.COMPLETED)


async def until_phase(house: House, phase: FlowPhase, **expected: StepState) -> None:
    async with asyncio.timeout(60):
        while True:
            flow = await look(house)
            if flow.phase is phase and states(flow).items() >= expected.items():
                return


async def test_a_job_that_failed_fails_the_flow_for_good(house: House) -> None:
    await house.apply(ALL)
    await until_submitted(house, "nightly-fetch", "nightly-clean")
    await say(house, "nightly-fetch", Verdict.FINISHED, Outcome.FAILED)
    await say(house, "nightly-clean", Verdict.FINISHED, Outcome.SUCCEEDED)
    await until_phase(house, FlowPhase.FAILED, train=StepState.BLOCKED)


async def test_two_gateways_submit_a_step_once(house: House) -> None:
    gateway = house.gateway
    other = Flows(house.bus, gateway.feed, gateway.decisions)
    running = asyncio.create_task(other.run())
    try:
        await house.apply(ALL)
        await until_submitted(house, "nightly-fetch", "nightly-clean")
        for name in ("nightly-fetch", "nightly-clean"):
            await say(house, name, Verdict.FINISHED, Outcome.SUCCEEDED)
        await until_submitted(house, "nightly-train")
        await until_phase(house, FlowPhase.RUNNING, train=StepState.PENDING)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    log = await house.bus.read_to_end(EVENTS.name, "muster.evt.gateway.v1.workload_submitted.>")
    names = [codec.decode(WorkloadSubmitted, received.body).workload.name for received in log]
    assert sorted(names) == ["nightly-clean", "nightly-fetch", "nightly-train"]


async def test_a_step_without_a_template_says_so_and_waits(house: House) -> None:
    await house.apply(TEMPLATE.replace("NAME", "fetch") + FLOW)
    await until_submitted(house, "nightly-fetch")
    missing = {step.name: step.message for step in (await look(house)).steps}
    assert missing["clean"] == "there is no JobTemplate team-a/clean"
    await house.apply(TEMPLATE.replace("NAME", "clean"))
    await until_submitted(house, "nightly-clean")


async def test_a_flow_belongs_to_those_who_submit_jobs(house: House) -> None:
    async def post(token: str) -> dict[str, Any]:
        async with house.client(token) as client:
            answer = await client.post("/v1/jobs", content=ALL)
        return {"status": answer.status_code}

    assert (await post("ci-token"))["status"] == 202
    assert (await post("viewer-token"))["status"] == 403
