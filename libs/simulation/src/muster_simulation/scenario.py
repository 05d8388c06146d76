"""A scenario file: what is there, what happens in which order, and what must have come of it.

Values as written; `manifests.py` makes Kueue's objects and jobs of them. Unknown words are refused.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from muster_domain.errors import InvalidValue

_TIME = re.compile(r"(\d+)(ms|s|m|h|d)?")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
NOTHING_CHANGES = "nothing_changes"


def _milliseconds(value: object) -> object:
    found = _TIME.fullmatch(str(value))
    if found is None:
        raise ValueError(f"{value!r} is not a time; write 1500 (milliseconds), 30s, 5m, 2h or 1d")
    return int(found[1]) * _UNIT_MS[found[2] or "ms"]


Time = Annotated[int, BeforeValidator(_milliseconds)]
"""Milliseconds, written as a number or with a unit."""
Manifest = dict[str, Any]


class Written(BaseModel):
    """What a file says of one thing."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)


class Quota(Written):
    """Quantities of one resource as Kubernetes writes them."""

    nominal: str
    borrowing: str | None = None
    lending: str | None = None


def _quota(value: object) -> object:
    return {"nominal": value} if isinstance(value, str | int | float) else value


Quotas = dict[str, Annotated[Quota, BeforeValidator(_quota)]]


class Line(Written):
    """A ClusterQueue in short, with a LocalQueue of the same name.

    `quota` is that of one flavor named `default`; `flavors` names several, in order of preference.
    """

    cohort: str = ""
    quota: Quotas = {}
    flavors: dict[str, Quotas] = {}
    strategy: Literal["StrictFIFO", "BestEffortFIFO"] = "BestEffortFIFO"
    within: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    reclaim: Literal["Never", "LowerPriority", "Any"] = "Never"
    borrow_within: Literal["Never", "LowerPriority"] = "Never"
    borrow_within_threshold: int | None = None
    when_can_borrow: Literal["MayStopSearch", "TryNextFlavor"] = "MayStopSearch"
    when_can_preempt: Literal["MayStopSearch", "TryNextFlavor"] = "TryNextFlavor"
    preference: Literal["", "BorrowingOverPreemption", "PreemptionOverBorrowing"] = ""
    weight: str = ""


class CohortLine(Written):
    """A Cohort in short."""

    parent: str = ""
    quota: Quotas = {}
    weight: str = ""


class Machines(Written):
    """`count` equal nodes; `{n}` in the name is the number. `gpus` are devices.

    With a `mig_model` they are cards of that model, divided into MIG instances as pods need it.
    """

    name: str = "node-{n}"
    count: int = Field(default=1, ge=1, le=20_000)
    gpus: int = Field(default=0, ge=0, le=64)
    mig_model: str = ""
    resources: dict[str, str] = {}
    labels: dict[str, str] = {}


class Job(Written):
    """A job in short: `pods` equal pods that ask `each`.

    It runs for `run` and needs `stop` to end when it is told to. Without `run` it ends when a round
    finishes it.
    """

    name: str
    queue: str
    each: dict[str, str] = {}
    pods: int = Field(default=1, ge=1)
    least: int | None = None
    priority: int = 0
    run: Time | None = None
    stop: Time = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    pod_annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}


class VolcanoJob(Written):
    """A Volcano Job of one task in short; its pods end with `exit_code` when they have run.

    They need `start` to begin. `topology` is its `networkTopology`. Times are as of a `Job`.
    """

    name: str
    volcano_queue: str
    each: dict[str, str] = {}
    pods: int = Field(default=1, ge=1)
    least: int | None = None
    priority: int = 0
    run: Time | None = None
    start: Time = 0
    stop: Time = 0
    exit_code: int = 0
    max_retry: int = 3
    policies: tuple[Manifest, ...] = ()
    topology: Manifest = {}
    node_selector: dict[str, str] = {}


class Preempted(Written):
    """Who took its place, and by what right."""

    by: str
    reason: str


class Expectation(Written):
    """What must be true after a round; what is left out is not looked at.

    `admitted` and `pending` name everybody who runs or waits, `pods` says how many pods of whom
    run. `preempted` names everybody who was preempted since the last round that says so,
    `evictions_max` bounds them all from the beginning.
    """

    admitted: tuple[str, ...] | None = None
    pending: dict[str, str] | None = None
    preempted: dict[str, Preempted] | None = None
    finished: dict[str, str] | None = None
    nodes: dict[str, tuple[str, ...]] | None = None
    pods: dict[str, int] | None = None
    evictions_max: int | None = None


def _form(value: Any) -> str:  # noqa: ANN401 - not validated yet
    if "apiVersion" in value:
        return "manifest"
    return "volcano" if "volcano_queue" in value else "short"


Submission = Annotated[
    Annotated[Job, Tag("short")]
    | Annotated[VolcanoJob, Tag("volcano")]
    | Annotated[Manifest, Tag("manifest")],
    Discriminator(_form),
]


class Round(Written):
    """What happens at a moment, in this order, and what comes of it."""

    at: Time
    set: tuple[Manifest, ...] = ()
    queues: dict[str, Line] = {}
    recover_node: tuple[str, ...] = ()
    fail_node: tuple[str, ...] = ()
    finish: tuple[str, ...] = ()
    cancel: tuple[str, ...] = ()
    checkpoint: tuple[str, ...] = ()
    submit: tuple[Submission, ...] = ()
    expect: Expectation | Literal["nothing_changes"] | None = None


class Replay(Written):
    """Jobs from a CSV file with the columns submit_s, team, gpus and duration_s.

    Each team has a queue like `queue`; `quota` names GPUs by team, `default_quota` those of teams
    not named. Jobs of more GPUs than `gpus_per_pod` are gangs. Small and short jobs are urgent
    (priority 1). `speed` divides all times; then only jobs from `from` until before `until` count.
    """

    file: Path = Path()
    cohort: str = "all"
    resource: str = "nvidia.com/gpu"
    gpus_per_pod: int = Field(default=8, ge=1)
    quota: dict[str, int] = {}
    default_quota: int = 0
    queue: Line = Line()
    urgent_gpus_max: int = 0
    urgent_seconds_max: int = 600
    first: int | None = None
    keep_one_in: int = Field(default=1, ge=1)
    from_ms: Time = Field(default=0, alias="from")
    until_ms: Time = Field(default=10**15, alias="until")
    speed: int = Field(default=1, ge=1)


class Scenario(Written):
    """The whole file. `levels` says where it is played, with the reason why not everywhere.

    `config` has keys of Kueue's Configuration. `topologies` are node labels from the widest level
    to the narrowest; `flavor_topologies` says which of them a flavor has.
    """

    name: str = ""
    shows: str = ""
    source: str = ""
    differs: str = ""
    levels: tuple[Literal["core", "bus", "live"], ...] = ("core", "bus", "live")
    why_not_all: str = ""
    config: Manifest = {}
    cohorts: dict[str, CohortLine] = {}
    queues: dict[str, Line] = {}
    flavor_labels: dict[str, dict[str, str]] = {}
    topologies: dict[str, tuple[str, ...]] = {}
    flavor_topologies: dict[str, str] = {}
    objects: tuple[Manifest, ...] = ()
    nodes: tuple[Machines, ...] = ()
    price_per_gpu_hour: str = ""
    trace: Replay | None = None
    rounds: tuple[Round, ...] = ()

    @model_validator(mode="after")
    def _in_order(self) -> "Scenario":
        times = [one.at for one in self.rounds]
        if times != sorted(times):
            raise ValueError("the rounds are not in the order of their times")
        return self


def read_scenario(text: str, *, source: str) -> Scenario:
    """Read a scenario. Raises `InvalidValue` that names the file, the field and what is wrong."""
    try:
        written = YAML(typ="safe").load(text)
        return Scenario.model_validate(written)
    except YAMLError as error:
        raise InvalidValue(f"not YAML: {error}", field=source) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidValue(f"{first['msg']}", field=f"{source}: {place}") from error


def load_scenario(path: Path) -> Scenario:
    """Read a scenario file; a trace is looked for beside it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidValue(f"cannot be read: {error.strerror}", field=str(path)) from error
    scenario = read_scenario(text, source=str(path))
    if scenario.trace is None:
        return scenario
    found = scenario.trace.model_copy(update={"file": path.parent / scenario.trace.file})
    return scenario.model_copy(update={"trace": found})
