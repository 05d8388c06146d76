"""Playing a scenario: the same rounds and expectations on whatever stage there is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from muster_domain.conditions import Outcome
from muster_manifests.catalogue import ObjectCatalogue
from muster_simulation.house import House
from muster_simulation.manifests import (
    Naming,
    configuration_of,
    load_documents,
    nodes_of,
    object_manifests,
    queue_of,
    renamed,
    submission_manifest,
    workload_of,
)
from muster_simulation.premises import Guest, Happening, Phase, What
from muster_simulation.scenario import (
    NOTHING_CHANGES,
    Expectation,
    Manifest,
    Preempted,
    Round,
    Scenario,
)
from muster_simulation.sizes import pods_of

QUIET_MS = 600_000
"""So long nothing may change at the end."""


@dataclass(slots=True)
class Seen:
    """How things stand, by the names that the scenario uses.

    `preempted` has who was preempted so far, in order, `evictions` counts all evictions.
    """

    admitted: set[str] = field(default_factory=set[str])
    pending: dict[str, str] = field(default_factory=dict[str, str])
    leaving: set[str] = field(default_factory=set[str])
    finished: dict[str, str] = field(default_factory=dict[str, str])
    nodes: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    pods: dict[str, int] = field(default_factory=dict[str, int])
    preempted: list[tuple[str, Preempted]] = field(default_factory=list["tuple[str, Preempted]"])
    evictions: int = 0


class Stage(Protocol):
    """Somewhere a scenario can be played."""

    def declare(self, manifests: list[Manifest]) -> None:
        """Apply objects."""
        ...

    def submit(self, manifest: Manifest, *, ends_by_order: bool) -> None:
        """Send one job; `ends_by_order` says that a round will finish it."""
        ...

    def finish(self, name: str) -> None:
        """Let a job that runs succeed."""
        ...

    def cancel(self, name: str) -> None:
        """Ask for a job to be ended."""
        ...

    def checkpoint(self, name: str) -> None:
        """Say that a job has saved its work."""
        ...

    def fail_node(self, name: str) -> None:
        """Cut a node's power."""
        ...

    def recover_node(self, name: str) -> None:
        """Give it back."""
        ...

    def pass_time(self, at_ms: int) -> None:
        """Let time pass until a moment of the scenario."""
        ...

    def rest(self) -> None:
        """Let so much time pass that what could still change has changed."""
        ...

    def expect(self, expectation: Expectation, seen_before: int) -> list[str]:
        """What differs from the expectation, after giving it the time that it needs.

        Evictions from number `seen_before` on count as new.
        """
        ...

    def look(self) -> Seen:
        """How things stand now."""
        ...


def play(scenario: Scenario, stage: Stage, naming: Naming) -> list[str]:
    """Play all rounds; returns what differed from what the file expects, each with its round."""
    stage.declare(object_manifests(scenario, naming))
    ordered = {name for one in scenario.rounds for name in one.finish}
    told = 0
    found: list[str] = []
    for number, one in enumerate(scenario.rounds):
        stage.pass_time(one.at)
        before = stage.look()
        _act(one, stage, naming, ordered)
        if isinstance(one.expect, Expectation):
            found += _of_round(number, stage.expect(one.expect, told))
            if one.expect.preempted is not None:
                told = len(stage.look().preempted)
        elif one.expect == NOTHING_CHANGES:
            stage.rest()
            found += _of_round(number, changes(before, stage.look()))
    return found


def differences(expected: Expectation, seen: Seen, seen_before: int) -> list[str]:
    """What differs from an expectation."""
    found: list[str] = []
    preempted = dict(seen.preempted[seen_before:])
    finished = {name: seen.finished.get(name, "") for name in expected.finished or {}}
    nodes = {name: seen.nodes.get(name, ()) for name in expected.nodes or {}}
    if expected.admitted is not None:
        _compare(found, "admitted", sorted(expected.admitted), sorted(seen.admitted))
    if expected.pending is not None:
        _compare(found, "pending", expected.pending, seen.pending)
    if expected.preempted is not None:
        _compare(found, "preempted", expected.preempted, preempted)
        if len(preempted) != len(seen.preempted[seen_before:]):
            found.append(f"preempted more than once: {seen.preempted[seen_before:]}")
    _compare(found, "finished", expected.finished or {}, finished)
    _compare(found, "nodes", expected.nodes or {}, nodes)
    pods = {name: seen.pods.get(name, 0) for name in expected.pods or {}}
    _compare(found, "pods", expected.pods or {}, pods)
    if expected.evictions_max is not None and seen.evictions > expected.evictions_max:
        found.append(f"{seen.evictions} evictions, at most {expected.evictions_max} were expected")
    return found


def changes(before: Seen, after: Seen) -> list[str]:
    """What changed where nothing was to change."""
    found: list[str] = []
    _compare(found, "admitted", sorted(before.admitted), sorted(after.admitted))
    _compare(found, "waiting", sorted(before.pending), sorted(after.pending))
    _compare(found, "evictions", before.evictions, after.evictions)
    return found


def _act(one: Round, stage: Stage, naming: Naming, ordered: set[str]) -> None:
    manifests = [renamed(manifest, naming) for manifest in one.set]
    manifests += [m for entry in one.queues.items() for m in queue_of(*entry, naming)]
    if manifests:
        stage.declare(manifests)
    for name in one.recover_node:
        stage.recover_node(naming.shared(name))
    for name in one.fail_node:
        stage.fail_node(naming.shared(name))
    for name in one.finish:
        stage.finish(name)
    for name in one.cancel:
        stage.cancel(name)
    for name in one.checkpoint:
        stage.checkpoint(name)
    for written in one.submit:
        manifest = submission_manifest(written, naming)
        stage.submit(manifest, ends_by_order=manifest["metadata"]["name"] in ordered)


def _of_round(number: int, found: list[str]) -> list[str]:
    return [f"round {number}: {what}" for what in found]


def _compare(found: list[str], what: str, expected: object, seen: object) -> None:
    if expected != seen:
        found.append(f"{what}: expected {_shown(expected)}, there is {_shown(seen)}")


def _shown(value: object) -> str:
    return str(dict(sorted(value.items()))) if isinstance(value, Mapping) else str(value)  # pyright: ignore[reportUnknownArgumentType]


class CoreStage:
    """Decision core and placement core in one process, victims chosen inline."""

    def __init__(self, scenario: Scenario, naming: Naming) -> None:
        self._naming = naming
        self._catalogue = ObjectCatalogue()
        self.happenings: list[Happening] = []
        self.house = House(
            configuration_of(self._catalogue),
            tell=self.happenings.append,
            checked=True,
        )
        self.house.add_nodes(nodes_of(scenario, naming))

    def declare(self, manifests: list[Manifest]) -> None:
        """As `Stage`."""
        for document in load_documents(manifests, "scenario"):
            self._catalogue.put_document(self._catalogue.sequence + 1, document)
        self.house.configure(configuration_of(self._catalogue))

    def submit(self, manifest: Manifest, *, ends_by_order: bool) -> None:
        """As `Stage`."""
        del ends_by_order
        house = self.house
        for document in load_documents([manifest], "scenario"):
            identity = f"{len(house.guests):04d}-{document.name}"
            house.submit(workload_of(document, self._catalogue, identity, house.now_ms))
        house.run(house.now_ms + 1)

    def finish(self, name: str) -> None:
        """As `Stage`."""
        self.house.end(self._guest(name).workload.id, Outcome.SUCCEEDED)

    def cancel(self, name: str) -> None:
        """As `Stage`."""
        self.house.end(self._guest(name).workload.id, Outcome.CANCELLED)

    def checkpoint(self, name: str) -> None:
        """As `Stage`."""
        self.house.view.mark_saved(self._guest(name).workload.id, self.house.now_ms)

    def fail_node(self, name: str) -> None:
        """As `Stage`."""
        self.house.fail_node(name)

    def recover_node(self, name: str) -> None:
        """As `Stage`."""
        self.house.recover_node(name)

    def pass_time(self, at_ms: int) -> None:
        """As `Stage`."""
        self.house.run(at_ms)

    def rest(self) -> None:
        """As `Stage`."""
        self.house.run(self.house.now_ms + QUIET_MS)

    def expect(self, expectation: Expectation, seen_before: int) -> list[str]:
        """As `Stage`."""
        self.house.run(self.house.now_ms + 1)
        return differences(expectation, self.look(), seen_before)

    def look(self) -> Seen:
        """As `Stage`."""
        seen = Seen()
        for guest in self.house.guests.values():
            self._add(seen, guest)
        for happening in self.happenings:
            if happening.what is What.EVICTED:
                seen.evictions += 1
                if happening.by:
                    reason = Preempted(by=happening.by, reason=happening.reason)
                    seen.preempted.append((happening.workload, reason))
        return seen

    def _add(self, seen: Seen, guest: Guest) -> None:
        name = guest.workload.name
        match guest.phase:
            case Phase.PENDING:
                seen.pending[name] = self.house.reason(guest.workload.id)
            case Phase.ADMITTED:
                seen.admitted.add(name)
                seen.nodes[name] = tuple(self._naming.plain(node) for node in guest.nodes)
                seen.pods[name] = sum(pods_of(self.house, guest).values())
            case Phase.EVICTING:
                seen.leaving.add(name)
            case Phase.FINISHED:
                seen.finished[name] = str(guest.outcome)

    def _guest(self, name: str) -> Guest:
        return next(g for g in self.house.guests.values() if g.workload.name == name)
