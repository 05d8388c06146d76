"""The muster command as its users start it, against the real gateway."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from muster_contracts import codec, subjects
from muster_contracts.events import ActivationRequested, FinishReported, LeaseRenewed
from muster_contracts.jobs import Decision, Seat, Verdict
from muster_domain.conditions import Outcome
from muster_runtime.publisher import Outgoing
from muster_testing.connection import until

from .house import ADMIN, BASE, House, job_manifest

pytestmark = pytest.mark.servers


class Started:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def end(self, deadline_s: float = 40) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        async with asyncio.timeout(deadline_s):
            out, err = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, out.decode(), err.decode()


async def start(house: House, *words: str, token: str = ADMIN, stdin: str = "") -> Started:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/nowhere",
        "MUSTER_URL": house.url,
        "MUSTER_TOKEN": token,
        "MUSTER_NAMESPACE": "team-a",
        "NO_COLOR": "1",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "muster",
        *words,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(stdin.encode())
    process.stdin.close()
    return Started(process)


async def muster(
    house: House, *words: str, token: str = ADMIN, stdin: str = ""
) -> tuple[int, str, str]:
    return await (await start(house, *words, token=token, stdin=stdin)).end()


async def decide(
    house: House,
    verdict: Verdict,
    *,
    outcome: Outcome | None = None,
    reason: str = "",
    seats: tuple[Seat, ...] = (),
) -> None:
    [fact] = house.admission.submitted.values()
    workload = fact.workload
    decision = Decision(
        id=workload.id,
        namespace=workload.namespace,
        name=workload.name,
        decision=verdict,
        reason=reason,
        message="",
        queue=workload.queue.name,
        cluster_queue=fact.cluster_queue,
        partition=house.admission.events[0][0].split(".")[5],
        attempt=1,
        at_ms=0,
        outcome=outcome,
        assignments=seats,
    )
    subject = subjects.decision(workload.namespace, workload.name)
    await house.bus.publish([Outgoing(subject=subject, body=codec.encode(decision))])


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(job_manifest()))
    return path


async def test_apply_get_and_delete(house: House, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(BASE)
    code, out, _ = await muster(house, "apply", "-f", str(tmp_path), "--dry-run")
    assert (code, out.splitlines()[1]) == (0, "ClusterQueue gpus created (dry run)")
    code, out, _ = await muster(house, "apply", "-f", str(tmp_path))
    assert out.splitlines() == [
        "ResourceFlavor a100 created",
        "ClusterQueue gpus created",
        "LocalQueue team-a/main created",
        "LocalQueue team-b/default created",
    ]
    code, out, _ = await muster(house, "get", "lq", "main", "-o", "yaml")
    assert (code, "# the door of team a" in out) == (0, True)
    code, out, _ = await muster(house, "get", "cq,rf")
    assert [line.split() for line in out.splitlines()] == [
        ["KIND", "NAMESPACE", "NAME"],
        ["ClusterQueue", "-", "gpus"],
        ["ResourceFlavor", "-", "a100"],
    ]
    code, out, err = await muster(house, "get", "cq,lq", "--active")
    assert err == ""
    assert (code, out.split()[3:]) == (0, [])
    code, out, _ = await muster(house, "get", "cq,lq", "--inactive")
    assert (code, out.split()[5::3]) == (0, ["gpus", "main", "default"])
    code, out, _ = await muster(house, "get", "lq", "--cluster-queue", "other")
    assert (code, out.split()[3:]) == (0, [])
    code, _, err = await muster(house, "get", "rf", "--active")
    assert (code, "muster get cq,lq --active" in err) == (2, True)
    code, out, _ = await muster(house, "get", "prices")
    assert (code, out.split()) == (0, ["KIND", "NAMESPACE", "NAME"])
    code, _, err = await muster(house, "get", "pricing")
    assert (code, "PriceList" in err) == (2, True)
    code, _, err = await muster(house, "delete", "rf", "a100")
    assert (code, "used by ClusterQueue gpus" in err) == (3, True)
    code, out, _ = await muster(house, "stop", "gpus")
    assert code == 0
    assert house.gateway.feed.catalogue.cluster_queues["gpus"].stop_policy == "Hold"
    assert (await muster(house, "resume", "gpus"))[0] == 0
    assert house.gateway.feed.catalogue.cluster_queues["gpus"].stop_policy == "None"


async def test_one_bad_file_says_where_and_does_not_stop_the_others(
    house: House, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata:\n\tname: x\n")
    (tmp_path / "b.yaml").write_text(BASE)
    code, out, err = await muster(house, "apply", "-f", str(tmp_path))
    assert code == 2
    assert f"{tmp_path / 'a.yaml'}:4:" in err
    assert "ClusterQueue gpus created" in out


async def test_submit_prints_the_job_and_the_first_word(house: House, job_file: Path) -> None:
    await house.apply()
    code, out, _ = await muster(house, "submit", str(job_file), "-o", "json")
    assert code == 0
    [job] = json.loads(out)["jobs"]
    assert job["decision"]["decision"] == "queued"
    code, _, err = await muster(house, "submit", str(job_file))
    assert code == 3
    assert job["id"] in err
    code, out, _ = await muster(house, "queue")
    assert out.splitlines()[1].split()[:3] == [job["id"][:8], "team-a/train", "main"]
    code, out, _ = await muster(house, "explain", job["id"][:6])
    assert out.splitlines()[0].startswith("PENDING  WaitingForQuota")
    code, out, _ = await muster(house, "explain", "train", "-o", "yaml", token="anna-token")  # noqa: S106
    assert (code, "(another namespace)" in out) == (0, True)


async def test_a_job_that_never_fits_ends_with_3(house: House) -> None:
    await house.apply()
    manifest = json.dumps(job_manifest(gpus=9))
    code, out, _ = await muster(house, "submit", "-", stdin=manifest)
    assert (code, "ExceedsMaxQuota" in out or "Refused" in out) == (3, True)
    code, _, err = await muster(house, "submit", "-", stdin=json.dumps(job_manifest(queue="x")))
    assert code == 2
    assert "field:" in err
    assert "fix: write one of main" in err
    assert "next:" in err


@pytest.mark.parametrize(
    ("outcome", "code"),
    [(Outcome.SUCCEEDED, 0), (Outcome.FAILED, 7), (Outcome.CANCELLED, 6)],
)
async def test_waiting_to_the_end_gives_the_jobs_own_code(
    house: House, job_file: Path, outcome: Outcome, code: int
) -> None:
    await house.apply()
    started = await start(house, "submit", str(job_file), "--wait", "-o", "json")
    await until(lambda: house.gateway.watchers.count > 0, 60)
    await decide(house, Verdict.ADMITTED)
    await decide(house, Verdict.PREEMPTED)
    await decide(house, Verdict.FINISHED, outcome=outcome)
    ended, out, err = await started.end()
    assert ended == code
    assert json.loads(out)["jobs"][0]["decision"]["outcome"] == outcome
    words = [line.split()[2] for line in err.splitlines() if "team-a/train" in line]
    assert words[-1] == "finished"


async def test_waiting_that_times_out_says_how_to_go_on(house: House, job_file: Path) -> None:
    await house.apply()
    code, _, err = await muster(
        house, "submit", str(job_file), "--wait=admitted", "--timeout", "1s"
    )
    assert code == 4
    [line] = [line for line in err.splitlines() if "take up waiting" in line]
    words = line.rpartition("muster ")[2].split()
    started = await start(house, *words)
    await until(lambda: house.gateway.watchers.count > 0, 60)
    await decide(house, Verdict.ADMITTED)
    assert (await started.end())[0] == 0


async def test_run_waits_renews_runs_and_reports(house: House) -> None:
    await house.apply()
    script = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['MUSTER_NODE'])"
    started = await start(
        house, "run", "-g", "2", "-q", "main", "--lease", "6s", "--", sys.executable, "-c", script
    )
    await house.seen(1)
    [fact] = house.admission.submitted.values()
    assert fact.workload.total_requests == {"nvidia.com/gpu": 2000}
    assert fact.workload.execution.kind == "external"
    await until(
        lambda: any(".lease_renewed." in subject for subject, _ in house.admission.events), 30
    )
    seat = Seat(rank=0, pod_set="main", node="n1", devices={"nvidia.com/gpu": (4, 6)})
    await decide(house, Verdict.ADMITTED, seats=(seat,))
    code, out, err = await started.end()
    assert (code, out) == (0, "4,6 n1\n"), err
    bodies = [body for subject, body in house.admission.events if ".finish_reported." in subject]
    assert codec.decode(FinishReported, bodies[0]).outcome is Outcome.SUCCEEDED
    renewed = [body for subject, body in house.admission.events if ".lease_renewed." in subject]
    assert codec.decode(LeaseRenewed, renewed[0]).workload_id == fact.workload.id


async def running_command(house: House, script: str) -> Started:
    await house.apply()
    started = await start(house, "run", "-q", "main", "--", sys.executable, "-uc", script)
    await house.seen(1)
    await until(lambda: house.gateway.watchers.count > 0, 60)
    await decide(house, Verdict.ADMITTED)
    assert started.process.stdout is not None
    assert await asyncio.wait_for(started.process.stdout.readline(), 60) == b"up\n"
    return started


SLEEPER = "import time; print('up'); time.sleep(60)"


async def test_run_gives_the_commands_own_code(house: House) -> None:
    started = await running_command(house, "print('up'); raise SystemExit(42)")
    code, _, _ = await started.end()
    assert code == 42
    await until(lambda: any(".finish_reported." in name for name, _ in house.admission.events))


async def test_run_stops_the_command_when_its_cards_are_taken(house: House) -> None:
    started = await running_command(house, SLEEPER)
    await decide(house, Verdict.PREEMPTED, reason="Preempted")
    code, _, err = await started.end()
    assert (code, "preempted" in err) == (5, True)
    await until(lambda: any(".cancel_requested." in name for name, _ in house.admission.events))


async def test_run_passes_signals_on(house: House) -> None:
    started = await running_command(house, SLEEPER)
    started.process.send_signal(signal.SIGTERM)
    code, _, _ = await started.end()
    assert code == 128 + signal.SIGTERM
    await until(lambda: any(".finish_reported." in name for name, _ in house.admission.events))


async def test_run_without_cards_in_time_leaves_nothing_behind(house: House) -> None:
    await house.apply()
    code, _, _ = await muster(house, "run", "-q", "main", "--timeout", "1s", "--", "true")
    assert code == 4
    await until(lambda: any(".cancel_requested." in name for name, _ in house.admission.events))


async def test_looking_around(house: House) -> None:
    await house.apply()
    await muster(house, "submit", "-", stdin=json.dumps(job_manifest()))
    code, out, _ = await muster(house, "quota")
    assert (code, out.splitlines()[0].split()[:3]) == (0, ["QUEUE", "COHORT", "FLAVOR"])
    code, out, err = await muster(house, "nodes", "--map")
    assert err == ""
    drawn = [line.split() for line in out.splitlines()]
    assert (code, ["n000", "A", "7/8", "team-b/secret"] in drawn) == (0, True)
    code, out, _ = await muster(house, "ledger", "verify")
    assert (code, len(out.splitlines())) == (0, 8)
    code, out, _ = await muster(house, "plan", "-", stdin=json.dumps(job_manifest("other")))
    assert (code, out.splitlines()[0]) == (0, "team-a/other: would wait, 2 ahead")
    code, out, _ = await muster(house, "nodes", "--map", "--pod", "gpu=2,cpu=4")
    assert (code, out.splitlines()[1].split()[:5]) == (0, ["2", "x", "nvidia.com/gpu,", "cpu", "4"])
    code, out, _ = await muster(house, "nodes", "--map", "-o", "json")
    assert (code, sorted(json.loads(out))) == (0, ["domains", "nodes"])
    code, _, err = await muster(house, "nodes", "--pod", "gpu=two")
    assert (code, "pod.nvidia.com/gpu" in err) == (2, True)
    code, _, err = await muster(house, "drain", "n999")
    assert (code, "muster nodes" in err) == (2, True)
    assert (await muster(house, "drain", "n001"))[0] == 0
    code, _, err = await muster(house, "checkpoint", "train", "--attempt", "2")
    assert (code, "team-a/train has saved its work" in err) == (0, True)
    code, _, err = await muster(house, "cancel", "--mine")
    assert (code, "team-a/train is being cancelled" in err) == (0, True)
    code, _, err = await muster(house, "cancel")
    assert code == 2


async def test_watch_prints_decisions_until_the_end(house: House, job_file: Path) -> None:
    await house.apply()
    await muster(house, "submit", str(job_file))
    started = await start(house, "watch", "train")
    await until(lambda: house.gateway.watchers.count > 0, 60)
    await decide(house, Verdict.FINISHED, outcome=Outcome.SUCCEEDED)
    code, out, _ = await started.end()
    assert code == 0
    assert [line.split()[2] for line in out.splitlines()] == ["queued", "finished"]


async def test_without_a_token_the_next_step_is_named(house: House) -> None:
    code, _, err = await muster(house, "queue", token="")
    assert (code, "MUSTER_TOKEN" in err) == (3, True)


async def test_usage_errors_end_with_2(house: House) -> None:
    assert (await muster(house, "submit"))[0] == 2
    assert (await muster(house, "submit", "nope.yaml"))[0] == 2
    assert (await muster(house, "dance"))[0] == 2
    code, out, _ = await muster(house, "--help")
    assert (code, "Exit codes" in out) == (0, True)


async def test_the_command_stops_and_resumes_workloads_and_queues(house: House) -> None:
    await house.apply()
    await muster(house, "submit", "-", stdin=json.dumps(job_manifest()))
    code, _, err = await muster(house, "stop", "workload", "train", "-n", "team-a")
    assert (code, "team-a/train is taken out of the line" in err) == (0, True)
    code, _, err = await muster(house, "resume", "wl", "train", "-n", "team-a")
    assert (code, "is put back into the line" in err) == (0, True)
    facts = [
        codec.decode(ActivationRequested, body).active
        for subject, body in house.admission.events
        if ".activation_requested." in subject
    ]
    assert facts == [False, True]
    code, _, err = await muster(house, "stop", "cq", "gpus", "--drain")
    assert (code, "stopPolicy HoldAndDrain" in err) == (0, True)
    code, _, err = await muster(house, "resume", "lq", "main", "-n", "team-a")
    assert (code, "team-a/main" in err) == (0, True)
    code, _, err = await muster(house, "stop", "node", "n1")
    assert (code, "write workload, cq, lq or queue" in err) == (2, True)


async def test_a_workload_comes_back_in_kueues_form(house: House) -> None:
    await house.apply()
    await muster(house, "submit", "-", stdin=json.dumps(job_manifest()))
    code, out, _ = await muster(house, "get", "workload", "train", "-n", "team-a", "-o", "yaml")
    assert code == 0
    assert out.startswith("apiVersion: kueue.x-k8s.io/v1beta2\nkind: Workload\n")


async def test_a_status_selects_by_kueuectls_words(house: House) -> None:
    await house.apply()
    await muster(house, "submit", "-", stdin=json.dumps(job_manifest()))
    code, out, _ = await muster(house, "queue", "--status", "pending")
    assert (code, "team-a/train" in out) == (0, True)
    code, out, _ = await muster(house, "queue", "--status", "finished")
    assert (code, "team-a/train" in out) == (0, False)


VOLCANO_QUEUES = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: lab}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: vision}  # theirs
spec: {parent: lab}
"""


async def test_a_closed_volcano_queue_takes_no_jobs_until_it_is_opened(house: House) -> None:
    await house.apply(VOLCANO_QUEUES)
    job = volcano_job("vision")
    code, _, err = await muster(house, "stop", "queue", "lab")
    assert (code, "Queue lab configured: Closed" in err) == (0, True)
    code, _, err = await muster(house, "submit", "-", stdin=job)
    assert code != 0
    assert "'vision' is closed and takes no jobs, as the queue 'lab' above it is" in err
    assert "muster resume queue lab" in err
    code, out, _ = await muster(house, "get", "queue")
    assert [line.split() for line in out.splitlines()] == [
        ["KIND", "NAMESPACE", "NAME", "STATE"],
        ["Queue", "-", "lab", "Closing"],
        ["Queue", "-", "vision", "Closing"],
    ]
    assert (await muster(house, "resume", "queue", "lab"))[0] == 0
    assert "# theirs" in (await muster(house, "get", "queue", "vision", "-o", "yaml"))[1]
    code, _, err = await muster(house, "submit", "-", stdin=job)
    assert code == 0, err
    assert (await muster(house, "stop", "queue", "lab", "--drain"))[0] == 2


def volcano_job(queue: str) -> str:
    container = {"name": "main", "image": "trainer", "resources": {"limits": {"cpu": 1}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return json.dumps(
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "train", "namespace": "team-a"},
            "spec": {"queue": queue, "tasks": [{"name": "t", "replicas": 1, "template": template}]},
        }
    )
