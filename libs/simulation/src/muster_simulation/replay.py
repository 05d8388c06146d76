"""Running a scenario or a trace for its figures rather than for what it expects."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from muster_domain.nodes import Node
from muster_domain.workload import Workload
from muster_manifests.catalogue import ObjectCatalogue
from muster_scheduling.snapshot.catalog import Configuration
from muster_simulation.house import House
from muster_simulation.manifests import (
    Naming,
    configuration_of,
    load_documents,
    nodes_of,
    object_manifests,
)
from muster_simulation.play import CoreStage, play
from muster_simulation.premises import Guest, Happening
from muster_simulation.scenario import Replay, Scenario
from muster_simulation.series import Series
from muster_simulation.summary import Accounts, Summary
from muster_simulation.trace import read_rows, with_queues, workloads

GPU = "nvidia.com/gpu"
CPU = "cpu"
Progress = Callable[[int, int], None]
"""Is told how many jobs have arrived, and how many there are."""
Tell = Callable[[Happening], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """How a run went. `differences` are those from what the file expects."""

    name: str
    summary: Summary
    series: Series
    resource: str
    quota_milli: int
    differences: tuple[str, ...] = ()


def replay_scenario(
    scenario: Scenario, *, seed: int, progress: Progress, tell: Tell = lambda _: None
) -> Replayed:
    """Run a scenario to its end; `tell` gets every happening when it happens.

    A trace may be as long as it likes: what has ended is summed up and forgotten. Raises
    `InvalidValue` for what cannot be read.
    """
    if scenario.trace is not None:
        return _replay_trace(scenario, scenario.trace, seed, progress, tell)
    naming = Naming()
    stage = CoreStage(scenario, naming)
    found = play(scenario, stage, naming)
    house = stage.house
    asked = {name for g in house.guests.values() for name in g.workload.total_requests}
    resource = GPU if GPU in asked else CPU
    accounts = _accounts(house.configuration, resource, scenario)
    amounts = {g.workload.name: _amount(g, resource) for g in house.guests.values()}
    series = Series(amounts.__getitem__)
    for happening in stage.happenings:
        tell(happening)
        series.take(happening)
    return _replayed(scenario, house, accounts, series, tuple(found))


def _replay_trace(
    scenario: Scenario, trace: Replay, seed: int, progress: Progress, tell: Tell
) -> Replayed:
    naming = Naming()
    rows = read_rows(trace, seed)
    scenario = with_queues(scenario, trace, rows)
    catalogue = ObjectCatalogue()
    for document in load_documents(object_manifests(scenario, naming), scenario.name or "trace"):
        catalogue.put_document(catalogue.sequence + 1, document)
    configuration = configuration_of(catalogue)
    accounts = _accounts(configuration, trace.resource, scenario)
    series = Series(lambda name: _amount(house.guests[name], trace.resource))

    def heard(happening: Happening) -> None:
        tell(happening)
        series.take(happening)

    house = House(configuration, tell=heard, ended=lambda guest: accounts.add(guest, house.now_ms))
    house.add_nodes(_real_nodes(scenario, naming))
    house.expect(_told(workloads(rows, trace, naming), len(rows), progress))
    house.drain()
    return _replayed(scenario, house, accounts, series)


def _told(arrivals: Iterator[Workload], total: int, progress: Progress) -> Iterator[Workload]:
    for number, workload in enumerate(arrivals):
        progress(number, total)
        yield workload
    progress(total, total)


def _real_nodes(scenario: Scenario, naming: Naming) -> tuple[Node, ...]:
    """Nodes only where the file names some; else quota alone decides."""
    return nodes_of(scenario, naming) if scenario.nodes else ()


def _amount(guest: Guest, resource: str) -> int:
    return guest.workload.total_requests.get(resource, 0)


def _accounts(configuration: Configuration, resource: str, scenario: Scenario) -> Accounts:
    nominal = {
        name: sum(
            quota.nominal_milli
            for group in queue.resource_groups
            for flavor in group.flavors
            for counted, quota in flavor.resources.items()
            if counted == resource
        )
        for name, queue in configuration.cluster_queues.items()
    }
    return Accounts(
        resource=resource, quota_milli=nominal, price_per_hour=scenario.price_per_gpu_hour
    )


def _replayed(
    scenario: Scenario,
    house: House,
    accounts: Accounts,
    series: Series,
    differences: tuple[str, ...] = (),
) -> Replayed:
    for guest in house.guests.values():
        accounts.add(guest, house.now_ms)
    series.run_to(house.now_ms)
    return Replayed(
        name=scenario.name,
        summary=accounts.summary(house.now_ms),
        series=series,
        resource=accounts.resource,
        quota_milli=sum(accounts.quota_milli.values()),
        differences=differences,
    )
