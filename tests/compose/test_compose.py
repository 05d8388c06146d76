"""The operated form, really started: images built here, containers, volumes, a job at the door.

Needs a Docker engine and compose; base images are made without a registry by tools/images.py.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from muster_runtime.embedded import free_ports
from muster_stack.access import Access
from muster_stack.credentials import read_environment
from muster_stack.secrets import prepare
from muster_testing.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
UP_DEADLINE_S = 240
JOB_DEADLINE_S = 120
SERVICES = ("gateway", "admission", "placement", "preemption", "accounting", "agent")

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

QUEUES = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: team-a}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu]
      flavors:
        - name: any
          resources: [{name: cpu, nominalQuota: 2}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: main, namespace: team-a}
spec: {clusterQueue: team-a}
"""

JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: NAME
  namespace: team-a
  labels: {kueue.x-k8s.io/queue-name: main}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: none
          command: [sh, -c, "sleep SECONDS"]
          resources: {requests: {cpu: 500m}}
"""


def compose_command() -> list[str]:
    """Compose as a plugin, or the older program."""
    plugin = subprocess.run(["docker", "compose", "version"], check=False, capture_output=True)
    return ["docker", "compose"] if plugin.returncode == 0 else ["docker-compose"]


@dataclass
class Compose:
    """One project: its own name, ports, secrets and volumes."""

    project: str
    environment_file: Path
    variables: dict[str, str]
    secrets: dict[str, str] = field(default_factory=dict[str, str])

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [*compose_command(), "-p", self.project, "--env-file", str(self.environment_file)]
        done = subprocess.run(
            [*command, *words],
            cwd=ROOT,
            env={**os.environ, **self.variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, f"{words}: {done.stderr[-3000:]}"
        return done

    def containers(self, service: str) -> list[str]:
        return self.run("ps", "-q", service).stdout.split()

    def wait_healthy(self, service: str, count: int = 1) -> None:
        wait_until(
            lambda: [health(each) for each in self.containers(service)] == ["healthy"] * count,
            UP_DEADLINE_S,
            lambda: f"{count} healthy {service}: {self.logs(service)}",
        )

    def logs(self, *services: str) -> str:
        return self.run("logs", "--tail=40", "--no-color", *services, check=False).stdout[-6000:]

    def api(self, name: str) -> httpx.Client:
        token = self.secrets[f"MUSTER_TOKEN_{name}"]
        return httpx.Client(
            base_url=f"http://127.0.0.1:{self.variables['MUSTER_PORT']}",
            headers={"Authorization": f"Bearer {token}"},
            timeout=20,
        )


def health(container: str) -> str:
    done = subprocess.run(
        ["docker", "inspect", "-f", "{{.State.Health.Status}}", container],
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@pytest.fixture(scope="session")
def images() -> dict[str, str]:
    if shutil.which("docker") is None:
        pytest.skip("there is no docker on this machine; .ci/docker installs it")
    for command in (["tools/docker_engine.py"], ["tools/images.py", "base"], ["tools/images.py"]):
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return {
        "MUSTER_IMAGE": "muster:local",
        "MUSTER_NATS_IMAGE": "muster-local/nats:2.15",
        "MUSTER_REDIS_IMAGE": "muster-local/redis:7",
    }


def project_in(folder: Path, images: dict[str, str]) -> Compose:
    http_port, nats_port, console_port = free_ports(3)
    return Compose(
        project=f"mustertest{http_port}",
        environment_file=folder / ".env",
        variables={
            **images,
            "MUSTER_COMPOSE_DIR": str(folder / "compose"),
            "MUSTER_PORT": str(http_port),
            "MUSTER_NATS_PORT": str(nats_port),
            "MUSTER_CONSOLE_PORT": str(console_port),
        },
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, images: dict[str, str]) -> Compose:
    folder = tmp_path_factory.mktemp("compose")
    made = project_in(folder, images)
    prepare(Access.read(ROOT / "deploy" / "access.toml"), made.environment_file, folder / "compose")
    made.secrets = read_environment(made.environment_file)
    return made


@pytest.fixture(scope="module")
def running(project: Compose) -> Iterator[Compose]:
    try:
        project.run("up", "-d")
        for service in (*SERVICES, "console"):
            project.wait_healthy(service)
        with project.api("ADMIN") as admin:
            taken = admin.post("/v1/jobs", content=QUEUES, headers=YAML)
            assert taken.status_code == 202, taken.text
        yield project
    finally:
        project.run("down", "-v", "--remove-orphans", "-t", "5", check=False)


YAML = {"Content-Type": "application/yaml"}


def submit(compose: Compose, name: str, seconds: int) -> None:
    with compose.api("CI_CI") as ci:
        text = JOB.replace("NAME", name).replace("SECONDS", str(seconds))
        taken = ci.post("/v1/jobs", content=text, headers=YAML)
        assert taken.status_code == 202, taken.text


def wait_for(compose: Compose, name: str, *verdicts: str) -> dict[str, object]:
    """The first decision of that kind; the door itself may be closed for a moment."""
    seen = ["nothing"]

    def look() -> dict[str, object] | None:
        with suppress(httpx.TransportError):
            answer = ci.get(f"/v1/workloads/team-a:{name}/decision")
            seen[0] = answer.text
            if answer.status_code == 200 and answer.json()["decision"] in verdicts:
                return answer.json()
        return None

    with compose.api("CI_CI") as ci:
        return wait_until(look, JOB_DEADLINE_S, lambda: f"{name}: {seen[0]}; {compose.logs()}")


def kill_processes(container: str) -> None:
    """Everything in the container dies at once, as in a crash; docker restarts it.

    Its process 1 is killed from outside, and the kernel ends the others with it.
    """
    done = subprocess.run(
        ["docker", "inspect", "-f", "{{.State.Pid}}", container],
        check=True,
        capture_output=True,
        text=True,
    )
    os.kill(int(done.stdout), signal.SIGKILL)


def test_the_file_is_valid(project: Compose) -> None:
    for profile in ("observability", "simulated"):
        variables = {**project.variables, "COMPOSE_PROFILES": profile}
        compose = Compose(project.project, project.environment_file, variables)
        assert "services:" in compose.run("config").stdout


def test_it_refuses_to_start_without_secrets(tmp_path: Path, images: dict[str, str]) -> None:
    compose = project_in(tmp_path, images)
    compose.environment_file.write_text("")
    done = compose.run("up", "-d", check=False)
    assert done.returncode != 0
    assert "there are no secrets yet" in done.stderr
    assert (
        compose.project
        not in subprocess.run(
            ["docker", "ps", "-a"], check=True, capture_output=True, text=True
        ).stdout
    )


def test_a_job_runs_to_its_end(running: Compose) -> None:
    submit(running, "hello", 1)
    decision = wait_for(running, "hello", "finished", "refused")
    assert decision["outcome"] == "Succeeded"


def test_without_a_token_the_door_is_closed(running: Compose) -> None:
    address = f"http://127.0.0.1:{running.variables['MUSTER_PORT']}"
    assert httpx.get(f"{address}/v1/workloads").status_code == 401
    assert httpx.get(f"{address}/readyz").status_code == 200


def test_people_look_at_pages(running: Compose) -> None:
    address = f"http://127.0.0.1:{running.variables['MUSTER_CONSOLE_PORT']}"
    with httpx.Client(base_url=address, follow_redirects=True, timeout=20) as viewer:
        assert "Who are you?" in viewer.get("/").text
        entered = viewer.post("/login", data={"token": running.secrets["MUSTER_TOKEN_VIEWER"]})
        assert entered.status_code == 200
        assert "team-a" in entered.text


@pytest.mark.parametrize("service", SERVICES)
def test_a_job_survives_the_crash_of_a_container(running: Compose, service: str) -> None:
    (container,) = running.containers(service)
    before = restarts(container)
    name = f"through-{service}"
    submit(running, name, 6)
    wait_for(running, name, "admitted", "finished")
    kill_processes(container)
    decision = wait_for(running, name, "finished", "refused")
    assert decision["decision"] == "finished"
    running.wait_healthy(service)
    assert restarts(container) > before


@pytest.mark.parametrize("service", ["nats", "redis"])
def test_a_job_survives_the_crash_of_a_server(running: Compose, service: str) -> None:
    (container,) = running.containers(service)
    name = f"through-{service}"
    submit(running, name, 8)
    wait_for(running, name, "admitted", "finished")
    subprocess.run(["docker", "kill", container], check=True, capture_output=True)
    subprocess.run(["docker", "start", container], check=True, capture_output=True)
    assert wait_for(running, name, "finished", "refused")["outcome"] == "Succeeded"


def test_admission_scales(running: Compose) -> None:
    running.run("up", "-d", "--no-recreate", "--scale", "admission=2", "admission")
    running.wait_healthy("admission", 2)
    submit(running, "scaled", 1)
    assert wait_for(running, "scaled", "finished", "refused")["outcome"] == "Succeeded"
    running.run("up", "-d", "--no-recreate", "--scale", "admission=1", "admission")


def test_containers_have_no_rights_to_spare(running: Compose) -> None:
    for service in (*SERVICES, "console"):
        (container,) = running.containers(service)[:1]
        found = json.loads(
            subprocess.run(
                ["docker", "inspect", container], check=True, capture_output=True, text=True
            ).stdout
        )[0]
        assert found["HostConfig"]["ReadonlyRootfs"], service
        assert found["HostConfig"]["CapDrop"] == ["ALL"], service
        assert found["Config"]["User"] == "10001:10001", service
        assert not found["HostConfig"]["Privileged"], service
        published = any((found["NetworkSettings"]["Ports"] or {}).values())
        assert published == (service in {"gateway", "console"}), service


def restarts(container: str) -> int:
    done = subprocess.run(
        ["docker", "inspect", "-f", "{{.RestartCount}}", container],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout)
