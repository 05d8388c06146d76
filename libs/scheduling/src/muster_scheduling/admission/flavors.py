"""Flavor assignment (R-26 to R-37): one flavor for every resource of every pod set."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from muster_domain.conditions import PendingReason
from muster_domain.queues import UndeclaredResources
from muster_domain.states import PodSetAdmission
from muster_scheduling.admission.assignment import (
    Assignment,
    Attempt,
    Choice,
    PodSetAssignment,
    ResourceVerdict,
)
from muster_scheduling.admission.eligibility import lasting_obstacle, obstacle
from muster_scheduling.admission.modes import (
    BEST,
    MODE_OF,
    WORST,
    Outlook,
    Suit,
    least_severe,
    most_severe,
    preferred,
    scan_goes_on,
)
from muster_scheduling.admission.seating import seat
from muster_scheduling.quota import FlavorResource
from muster_scheduling.snapshot.catalog import QueueEntry
from muster_scheduling.snapshot.remembered import Asks, GroupAsk, Possibility, UnitAsk
from muster_scheduling.snapshot.view import AdmissionView
from muster_scheduling.snapshot.workloads import PendingWorkload, PodSetRequest, ScanBookmark

_SUIT = {
    Possibility.NO_CANDIDATES: Suit.NO_CANDIDATES,
    Possibility.PREEMPT: Suit.PREEMPT,
    Possibility.RECLAIM: Suit.RECLAIM,
}

_NOTHING_HELD: dict[str, PodSetAdmission] = {}


Pinned = Sequence[Mapping[str, str]]
"""The only flavor that may be used, per pod set and resource."""


class PreemptionOracle(Protocol):
    """Whether preemption could make room; the real search, or answers given beforehand."""

    def ask(
        self, preemptor: PendingWorkload, entry: QueueEntry, fr: FlavorResource, amount: int
    ) -> tuple[Possibility, int]:
        """What is possible, and the borrow level once the victims were gone."""
        ...


class FlavorAssigner:
    """Assigns flavors to one workload against the usage of the moment."""

    def __init__(
        self,
        view: AdmissionView,
        workload: PendingWorkload,
        entry: QueueEntry,
        oracle: PreemptionOracle,
        *,
        pinned: Pinned | None = None,
        replaced: Sequence[PodSetAdmission] = (),
    ) -> None:
        self._replaced = {one.name: one for one in replaced} if replaced else _NOTHING_HELD
        self._view = view
        self._tree = view.tree
        self._workload = workload
        self._entry = entry
        self._oracle = oracle
        self._pinned = pinned
        self._particular = pinned is not None or bool(replaced) or bool(workload.avoided)
        self._bookmark = usable_bookmark(view, workload, entry) if pinned is None else None
        self._fungibility = entry.queue.flavor_fungibility

    def assign(self, counts: Sequence[int] | None = None) -> Assignment:
        """Flavors for the whole workload, or for `counts` pods of each pod set."""
        assignment = Assignment()
        if self._replaced:
            assignment.held = tuple(self._replaced.values())
        asks = self._asks(counts)
        tried: list[Mapping[str, int]] = [{}] * len(asks.requests)
        failed = False
        for ask in asks.units:
            for index, result in self._assign_unit(ask, asks, assignment.usage):
                assignment.pod_sets.append(result)
                if result.choices:
                    self._count(assignment, result)
                    tried[index] = {name: c.tried_index for name, c in result.choices.items()}
                failed = failed or result.reason is not None
            if failed:
                break
        else:
            if self._view.catalog.topology_flavors:
                self._check_topology(assignment)
        self._conclude(assignment)
        generations, cycles, root = self._view.generations, self._view.cycles, self._entry.root
        assignment.bookmark = ScanBookmark(
            tuple(tried),
            generations[root] if root in generations else 0,  # noqa: SIM401 - a call costs more
            cycles[root] if root in cycles else 0,  # noqa: SIM401 - a call costs more
        )
        return assignment

    def _conclude(self, assignment: Assignment) -> None:
        """The mode of the whole, and seats where admission finds them."""
        reasons = [p.reason for p in assignment.pod_sets if p.reason is not None]
        if reasons or not assignment.pod_sets:
            assignment.reason = most_severe(reasons)
            return
        assignment.mode = min([p.mode for p in assignment.pod_sets])
        if self._view.board is not None:
            seat(self._view, self._workload, self._entry, assignment)

    def _asks(self, counts: Sequence[int] | None) -> Asks:
        """What it asks; of the whole workload it is the same for everybody of its shape."""
        if counts is not None:
            return self._worked_out(counts)
        key = (self._entry.name, self._workload.shape)
        asks = self._view.asks
        if key not in asks:
            asks[key] = self._worked_out([pod_set.count for pod_set in self._workload.pod_sets])
        return asks[key]

    def _worked_out(self, sizes: Sequence[int]) -> Asks:
        requests = [
            self._requests(*sized) for sized in zip(self._workload.pod_sets, sizes, strict=True)
        ]
        units: list[UnitAsk] = []
        for unit in self._units():
            summed = _sum(requests[index] for index in unit)
            groups: dict[int, GroupAsk] = {}
            uncovered: list[str] = []
            for resource in sorted(summed):
                group = self._entry.group_of.get(resource)
                if group is None:
                    uncovered.append(resource)
                elif group.index not in groups:
                    wanted = {name: summed[name] for name in summed if name in group.resources}
                    barred = [self._barred(unit, flavor) for flavor in group.flavors]
                    groups[group.index] = GroupAsk(group, resource, wanted, barred)
            units.append(UnitAsk(unit, list(groups.values()), uncovered))
        return Asks(list(sizes), requests, units)

    def _barred(self, unit: list[int], flavor: str) -> str:
        """Why nobody of the workload's shape may use the flavor here."""
        for index in unit:
            pod_set = self._workload.pod_sets[index]
            why = lasting_obstacle(self._view, self._workload, pod_set, self._entry, flavor)
            if why:
                return why
        return ""

    def _requests(self, pod_set: PodSetRequest, count: int) -> dict[str, int]:
        requests = pod_set.totals(count)
        groups = self._entry.group_of
        if "pods" in groups:
            requests["pods"] = count * 1000
        ignore = self._view.policy.ignore_undeclared or (
            self._entry.queue.undeclared_resources is UndeclaredResources.IGNORE
        )
        return {
            name: requests[name]
            for name in sorted(requests)
            if name in groups or (requests[name] != 0 and not ignore)
        }

    def _units(self) -> list[list[int]]:
        """Pod sets that share one `podSetGroupName` go together, in spec order (R-26)."""
        units: dict[str, list[int]] = {}
        for index, pod_set in enumerate(self._workload.pod_sets):
            group = pod_set.group
            units.setdefault(f"group {group}" if group else f"alone {index}", []).append(index)
        return list(units.values())

    def _assign_unit(
        self, ask: UnitAsk, asks: Asks, assumed: Mapping[FlavorResource, int]
    ) -> list[tuple[int, PodSetAssignment]]:
        choices: dict[str, Choice] = {}
        attempts: list[Attempt] = []
        reasons = [PendingReason.NO_MATCHING_FLAVOR] * len(ask.uncovered)
        for group in ask.groups:
            looked_at: list[Attempt] = []
            found = self._scan(ask.unit, group, assumed, looked_at)
            attempts += looked_at
            if found:
                choices |= found
                continue
            why = least_severe([a.reason for a in looked_at if a.reason is not None])
            reasons.append(why or PendingReason.NO_MATCHING_FLAVOR)
        reason, problem = most_severe(reasons) if reasons else None, ""
        if ask.uncovered:
            problem = f"resource {ask.uncovered[-1]} unavailable in ClusterQueue"
        assigned: list[tuple[int, PodSetAssignment]] = []
        for index in ask.unit:
            name, asked = self._workload.pod_sets[index].name, asks.requests[index]
            own = {} if reasons else self._own_choices(asked, choices, grouped=len(ask.unit) > 1)
            result = PodSetAssignment(
                name, asks.sizes[index], asked, own, attempts, reason, problem
            )
            assigned.append((index, result))
        return assigned

    def _own_choices(
        self, requests: Mapping[str, int], choices: dict[str, Choice], *, grouped: bool
    ) -> dict[str, Choice]:
        """A pod set without requests follows its group's flavors that have a topology (R-26)."""
        if requests or not grouped:
            return {name: choices[name] for name in requests}
        return {
            name: choice for name, choice in choices.items() if self._topology_of(choice.flavor)
        }

    def _topology_of(self, flavor: str) -> str:
        declared = self._view.catalog.flavors.get(flavor)
        return declared.topology_name if declared is not None else ""

    def _check_topology(self, assignment: Assignment) -> None:
        """A pod set that sits by topology needs exactly one flavor that has one."""
        for pod_set, result in zip(self._workload.pod_sets, assignment.pod_sets, strict=False):
            if pod_set.topology is None and not self._entry.topology_only:
                continue
            flavors = {c.flavor for c in result.choices.values() if self._topology_of(c.flavor)}
            if len(flavors) > 1:
                result.problem = f"more than one TAS flavor assigned: {', '.join(sorted(flavors))}"
            elif not flavors and pod_set.topology is not None:
                result.problem = "no TAS flavor assigned"
            if result.problem:
                result.reason = PendingReason.NO_MATCHING_FLAVOR

    def _scan(
        self,
        unit: list[int],
        ask: GroupAsk,
        assumed: Mapping[FlavorResource, int],
        attempts: list[Attempt],
    ) -> dict[str, Choice]:
        """Try the group's flavors from the bookmark on; the best one's choices (R-34)."""
        best: dict[str, Outlook] = {}
        best_flavor, best_outlook = "", WORST
        flavors, wanted = ask.group.flavors, ask.wanted
        if self._replaced:
            wanted = {n: amount - self._held(unit, n) for n, amount in wanted.items()}
        last = len(flavors) - 1
        attempted = -1
        for index in range(self._first(unit[0], ask.resource), last + 1):
            attempted = index
            flavor = flavors[index]
            why = self._why_not(unit, flavor, ask.resource) if self._particular else ""
            why = why or ask.barred[index]
            if why:
                reason = PendingReason.NO_MATCHING_FLAVOR
                attempts.append(Attempt(flavor, Suit.NO_FIT, 0, reason, why))
                continue
            outlook, chosen, attempt = self._try(flavor, wanted, assumed)
            attempts.append(attempt)
            if not scan_goes_on(outlook, self._fungibility):
                best, best_flavor = chosen, flavor
                break
            if preferred(outlook, best_outlook, self._fungibility):
                best, best_flavor, best_outlook = chosen, flavor, outlook
        tried_index = -1 if attempted == last else attempted
        found: dict[str, Choice] = {}
        for name, (suit, borrow) in best.items():
            hopeless = suit is Suit.NO_CANDIDATES
            found[name] = Choice(best_flavor, MODE_OF[suit], borrow, tried_index, hopeless)
        return found

    def _held(self, unit: list[int], resource: str) -> int:
        """What the slice that is taken over holds already (R-110)."""
        names = [self._workload.pod_sets[index].name for index in unit]
        held = [self._replaced[name].usage for name in names if name in self._replaced]
        return sum(usage.get(resource, 0) for usage in held)

    def _first(self, index: int, resource: str) -> int:
        if self._bookmark is None or index >= len(self._bookmark.tried):
            return 0
        return self._bookmark.tried[index].get(resource, -1) + 1

    def _why_not(self, unit: list[int], flavor: str, resource: str) -> str:
        """Why this workload of all its shape may not use the flavor now."""
        if self._pinned is not None and self._pinned[unit[0]].get(resource, flavor) != flavor:
            return f"skipping flavor {flavor} as another was nominated for {resource}"
        for index in unit:
            pod_set = self._workload.pod_sets[index]
            old = self._replaced.get(pod_set.name)
            if old is not None and old.flavors.get(resource, flavor) != flavor:
                return f"flavor {flavor} is not the one of the slice that is taken over"
            why = obstacle(self._view, self._workload, pod_set, self._entry, flavor)
            if why:
                return why
        return ""

    def _try(
        self, flavor: str, wanted: dict[str, int], assumed: Mapping[FlavorResource, int]
    ) -> tuple[Outlook, dict[str, Outlook], Attempt]:
        """The flavor's outlook is that of its worst resource (R-32)."""
        worst = BEST
        chosen: dict[str, Outlook] = {}
        verdicts: list[ResourceVerdict] = []
        reason: PendingReason | None = None
        for resource, amount in wanted.items():
            fr = (flavor, resource)
            verdict = self._verdict(fr, assumed.get(fr, 0) if assumed else 0, amount)
            verdicts.append(verdict)
            plain = verdict.suit is Suit.FIT and not verdict.borrow
            outlook = BEST if plain else Outlook(verdict.suit, verdict.borrow)
            if outlook != worst and preferred(worst, outlook, self._fungibility):
                worst = outlook
            if worst.suit is Suit.NO_FIT:
                reason = verdict.reason
                break
            chosen[resource] = outlook
        if worst.suit is Suit.NO_FIT:
            chosen = {}
        attempt = Attempt(flavor, worst.suit, worst.borrow, reason, "", tuple(verdicts))
        return worst, chosen, attempt

    def _verdict(self, fr: FlavorResource, assumed: int, amount: int) -> ResourceVerdict:
        """What quota says about one resource in one flavor (R-30)."""
        node = self._entry.node
        requested = assumed + amount
        potential, quotas, usage = node.potential, node.quotas, node.usage
        maximum = potential[fr] if fr in potential else 0  # noqa: SIM401 - a call costs more
        available = max(0, self._tree.available(node, fr))
        borrow, may_reclaim = self._tree.borrow_level(node, fr, requested)
        nominal = quotas[fr].nominal if fr in quotas else 0
        reason: PendingReason | None = None
        if requested > maximum:
            suit, reason = Suit.NO_FIT, PendingReason.EXCEEDS_MAX_QUOTA
        elif requested <= available:
            suit = Suit.FIT
        elif nominal >= requested or may_reclaim or self._entry.preempts_while_borrowing:
            possibility, borrow = self._oracle.ask(self._workload, self._entry, fr, requested)
            suit = _SUIT[possibility]
        else:
            suit, reason = Suit.NO_FIT, PendingReason.WAITING_FOR_QUOTA
        used = usage[fr] if fr in usage else 0  # noqa: SIM401 - a call costs more
        return ResourceVerdict(
            fr[1], suit, requested, assumed, nominal, used, available, maximum, borrow, reason
        )

    def _count(self, assignment: Assignment, result: PodSetAssignment) -> None:
        usage = assignment.usage
        old = self._replaced.get(result.name)
        for resource, choice in result.choices.items():
            if resource not in result.requests:
                continue
            held = old.usage.get(resource, 0) if old is not None else 0
            fr = (choice.flavor, resource)
            before = usage[fr] if fr in usage else 0  # noqa: SIM401 - a call costs more
            usage[fr] = before + result.requests[resource] - held
            if choice.borrow:
                assignment.borrowing = max(assignment.borrowing, choice.borrow)


def _sum(vectors: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for vector in vectors:
        for resource, amount in vector.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def usable_bookmark(
    view: AdmissionView, workload: PendingWorkload, entry: QueueEntry
) -> ScanBookmark | None:
    """Where the last scan stopped, unless that is out of date (R-37)."""
    bookmarks = view.queues[entry.name].bookmarks if entry.name in view.queues else {}
    if workload.id not in bookmarks:
        return None
    bookmark = bookmarks[workload.id]
    recent = view.cycles.get(entry.root, 0) - bookmark.cycle <= 1
    if view.policy.scan_progress and recent:
        return bookmark
    return bookmark if bookmark.generation == view.generation(entry) else None
