"""How full a cluster gets: pods of a trace arrive one by one, stay, and are refused for good.

The trace is openb, Alibaba's 2023 GPU trace as in "Beware of Fragmentation" (Weng et al., ATC
2023); the protocol is that of its experiment: every pod is one workload, nothing departs, no quota.
A folder holds nodes.csv, pods_TRACE.csv and orders/TRACE-SEED.txt.gz: the arrivals as rows of the
pods, and after `#nodes` the order of node names that breaks ties. The policy is production's and
learns the mix of pods from those that have come, nothing is known of the trace beforehand. A part
of a card is asked for as `volcano.sh/vgpu-cores` and `vgpu-memory-percentage`.
"""

import csv
import gzip
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster_domain.nodes import Device, Node
from muster_domain.queues import PlacementPolicy
from muster_domain.selectors import (
    NodeAffinity,
    NodeDemand,
    Requirement,
    Selector,
    SelectorOperator,
)
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Placed
from muster_scheduling.placement.packing.mix import PodMix, kind_of
from muster_scheduling.placement.packing.prices import prices
from muster_scheduling.placement.request import GangRequest, PodSetRequest
from muster_scheduling.placement.shares import (
    GPU,
    VGPU_CORES,
    VGPU_MEMORY_PERCENTAGE,
    VGPU_NUMBER,
    WHOLE,
)
from muster_scheduling.placement.table import NodeTable

MODEL = "nvidia.com/gpu.product"
MIB_MILLI = 2**20 * 1000
MARKS = (50, 80, 90, 95, 100, 130)
FULL = 100

Figures = dict[str, Any]
Row = dict[str, str]


@dataclass(slots=True)
class Replay:
    """One run. `allocated` lists allocated percent after each arrival, by arrived percent."""

    capacity_milli: int
    arrived_milli: int = 0
    allocated_milli: int = 0
    first_rejection: float | None = None
    allocated: dict[int, list[float]] = field(default_factory=dict[int, list[float]])
    asked: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])

    @property
    def arrived_percent(self) -> float:
        """What has arrived, as a part of all cards."""
        return 100 * self.arrived_milli / self.capacity_milli

    def record(self, pod: Row, *, placed: bool) -> None:
        """Count one decision."""
        size = int(pod["num_gpu"]) * int(pod["gpu_milli"])
        self.arrived_milli += size
        self.allocated_milli += size if placed else 0
        if not placed and self.first_rejection is None:
            self.first_rejection = round(self.arrived_percent, 2)
        mark = round(self.arrived_percent)
        percent = 100 * self.allocated_milli / self.capacity_milli
        self.allocated.setdefault(mark, []).append(percent)
        if mark <= FULL:
            self.asked[_class_of(pod)] += 1
            self.refused[_class_of(pod)] += not placed

    def figures(self, seed: str, took: "Took", decisions: int) -> Figures:
        """The run in the form of the file."""
        return {
            "seed": seed,
            "allocated_percent": {
                str(mark): round(statistics.fmean(self.allocated[mark]), 2)
                for mark in MARKS
                if mark in self.allocated
            },
            "first_rejection_percent": self.first_rejection,
            "rejected_until_100_percent": {
                name: {"rejected": self.refused[name], "arrived": self.asked[name]}
                for name in sorted(self.asked)
            },
            "decisions": decisions,
            "decisions_per_second": round(decisions / took.seconds),
            "decisions_per_processor_second": round(decisions / took.processor_seconds),
        }


@dataclass(frozen=True, slots=True)
class Took:
    """Time by the clock, and of the processor alone: on a shared machine they differ."""

    seconds: float
    processor_seconds: float


def measure(folder: Path, trace: str, say: Callable[[str], None], limit: int = 0) -> Figures:
    """Replay a trace in every order found; `limit` above zero ends each after so many pods."""
    orders = sorted((folder / "orders").glob(f"{trace}-*.txt.gz"))
    if not orders:
        raise FileNotFoundError(f"{folder}/orders has no {trace}-SEED.txt.gz")
    pods = _rows(folder / f"pods_{trace}.csv")
    nodes = {row["sn"]: row for row in _rows(folder / "nodes.csv")}
    seeds: list[Figures] = []
    for path in orders:
        seed = path.name.removeprefix(f"{trace}-").removesuffix(".txt.gz")
        seeds.append(_replay(nodes, pods, path, seed, limit))
        say(f"  {trace} {seed}: {seeds[-1]['allocated_percent']}")
    return {"trace": trace, "policy": PlacementPolicy.FRAGMENTATION, "seeds": seeds} | _mean(seeds)


def _mean(seeds: list[Figures]) -> Figures:
    mean: Figures = {}
    for mark in map(str, MARKS):
        found = [seed["allocated_percent"].get(mark) for seed in seeds]
        if None not in found:
            mean[mark] = {
                "mean": round(statistics.fmean(found), 2),
                "sd": round(statistics.stdev(found), 2) if len(found) > 1 else 0,
            }
    return {"allocated_percent": mean}


def _replay(nodes: dict[str, Row], pods: list[Row], path: Path, seed: str, limit: int) -> Figures:
    arrivals, _, names = gzip.decompress(path.read_bytes()).decode().partition("#nodes")
    order = [int(line) for line in arrivals.split()]
    table = NodeTable()
    for rank, name in enumerate(names.split()):
        table.put_node(_node(rank, nodes[name]))
    run = Replay(1000 * sum(int(row["gpu"]) for row in nodes.values()))
    mix = PodMix()
    start, start_of_processor = time.perf_counter(), time.process_time()
    count = 0
    for count, pod in enumerate(_first(order, pods, limit), 1):
        run.record(pod, placed=_decide(table, mix, count, pod))
    took = Took(time.perf_counter() - start, time.process_time() - start_of_processor)
    return run.figures(seed, took, count)


def _first(order: list[int], pods: list[Row], limit: int) -> Iterator[Row]:
    for row in order[: limit or None]:
        yield pods[row]


def _decide(table: NodeTable, mix: PodMix, number: int, pod: Row) -> bool:
    """What the placement service does with one gang: learn, look at prices when due, seat."""
    request = _request(number, pod)
    mix.arrived(kind_of(request.pod_sets[0]), 1)
    if mix.due:
        table.prices = prices(table.columns, mix)
        mix.priced = mix.pods
    outcome = place(table, request)
    if isinstance(outcome, Placed):
        table.bind(outcome.gang)
        return True
    return False


def _node(rank: int, row: Row) -> Node:
    cards = int(row["gpu"])
    return Node(
        name=f"{rank:04}-{row['sn']}",
        allocatable={
            "cpu": int(row["cpu_milli"]),
            "memory": int(row["memory_mib"]) * MIB_MILLI,
            GPU: cards * WHOLE,
        },
        labels={MODEL: row["model"]},
        devices=tuple(
            Device(index=index, resource=GPU, model=row["model"]) for index in range(cards)
        ),
    )


def _request(number: int, pod: Row) -> GangRequest:
    cards, milli = int(pod["num_gpu"]), int(pod["gpu_milli"])
    requests = {"cpu": int(pod["cpu_milli"]), "memory": int(pod["memory_mib"]) * MIB_MILLI}
    if cards and milli < WHOLE:
        percent = milli * 1000 // 10
        requests |= {
            VGPU_NUMBER: cards * 1000,
            VGPU_CORES: percent,
            VGPU_MEMORY_PERCENTAGE: percent,
        }
    elif cards:
        requests[GPU] = cards * WHOLE
    pod_set = PodSetRequest(name="main", count=1, requests=requests, demand=_demand(pod))
    return GangRequest(
        workload=f"pod-{number:05}", pod_sets=(pod_set,), policy=PlacementPolicy.FRAGMENTATION
    )


def _demand(pod: Row) -> NodeDemand:
    models = tuple(filter(None, pod["gpu_spec"].strip().split("|")))
    if not models:
        return NodeDemand()
    one_of = Requirement(key=MODEL, operator=SelectorOperator.IN, values=models)
    return NodeDemand(affinity=NodeAffinity(required_terms=(Selector(requirements=(one_of,)),)))


def _class_of(pod: Row) -> str:
    cards = int(pod["num_gpu"])
    if not cards:
        return "no GPU"
    return "share" if int(pod["gpu_milli"]) < WHOLE else f"{cards} GPU"


def _rows(path: Path) -> list[Row]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
