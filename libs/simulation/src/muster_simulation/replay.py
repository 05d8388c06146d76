"""Running a scenario or a trace for its figures rather than for what it expects."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from muster_domain.nodes import Node
from muster_domain.workload import Workload
from muster_manifests.catalogue import ObjectCatalogue
from muster_simulation.house import Happening, House
from muster_simulation.manifests import (
    Naming,
    configuration_of,
    load_documents,
    nodes_of,
    object_manifests,
)
from muster_simulation.play import CoreStage, play
from muster_simulation.scenario import Replay, Scenario
from muster_simulation.summary import Summary, summarise
from muster_simulation.trace import read_rows, with_queues, workloads

GPU = "nvidia.com/gpu"
CPU = "cpu"
Progress = Callable[[int, int], None]
"""Is told how many jobs have arrived, and how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """How a run went. `differences` are those from what the file expects.

    `amounts_milli` is what each workload asks of the resource that the summary counts.
    """

    summary: Summary
    happenings: tuple[Happening, ...]
    differences: tuple[str, ...] = ()
    capacity_milli: int = 0
    amounts_milli: Mapping[str, int]


def replay_scenario(scenario: Scenario, *, seed: int, progress: Progress) -> Replayed:
    """Run a scenario to its end. Raises `InvalidValue` for what cannot be read."""
    if scenario.trace is not None:
        return _replay_trace(scenario, scenario.trace, seed, progress)
    naming = Naming()
    stage = CoreStage(scenario, naming)
    found = play(scenario, stage, naming)
    house = stage.house
    asked = {name for g in house.guests.values() for name in g.workload.total_requests}
    return _summed(house, GPU if GPU in asked else CPU, stage.happenings, scenario, tuple(found))


def _replay_trace(scenario: Scenario, trace: Replay, seed: int, progress: Progress) -> Replayed:
    naming = Naming()
    rows = read_rows(trace, seed)
    scenario = with_queues(scenario, trace, rows)
    catalogue = ObjectCatalogue()
    for document in load_documents(object_manifests(scenario, naming), scenario.name or "trace"):
        catalogue.put_document(catalogue.sequence + 1, document)
    happenings: list[Happening] = []
    house = House(configuration_of(catalogue), happenings.append)
    house.add_nodes(_real_nodes(scenario, naming))
    for number, workload in enumerate(workloads(rows, trace, naming)):
        house.at(workload.created_at_ms, _arrival(house, workload, number, len(rows), progress))
    house.drain()
    return _summed(house, trace.resource, happenings, scenario)


def _arrival(
    house: House, workload: Workload, number: int, total: int, progress: Progress
) -> Callable[[], None]:
    def arrive() -> None:
        house.submit(workload)
        progress(number + 1, total)

    return arrive


def _real_nodes(scenario: Scenario, naming: Naming) -> tuple[Node, ...]:
    """Nodes only where the file names some; else quota alone decides."""
    return nodes_of(scenario, naming) if scenario.nodes else ()


def _summed(
    house: House,
    resource: str,
    happenings: list[Happening],
    scenario: Scenario,
    differences: tuple[str, ...] = (),
) -> Replayed:
    nominal = sum(
        quota.nominal_milli
        for queue in house.configuration.cluster_queues.values()
        for group in queue.resource_groups
        for flavor in group.flavors
        for name, quota in flavor.resources.items()
        if name == resource
    )
    return Replayed(
        summary=summarise(
            house.guests.values(), resource, house.now_ms, scenario.price_per_gpu_hour
        ),
        happenings=tuple(happenings),
        differences=differences,
        capacity_milli=nominal,
        amounts_milli={
            guest.workload.name: guest.workload.total_requests.get(resource, 0)
            for guest in house.guests.values()
        },
    )
