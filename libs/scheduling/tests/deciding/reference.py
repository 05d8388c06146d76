"""Kueue's rules of quota, flavors, victims and turns once more, slowly and from the text alone.

Nothing is changed in place and nothing is remembered between two questions: a world with somebody
gone is another world. `test_reference.py` holds the decision core to it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from muster_domain.policy import FairSharing, FairStrategy
from muster_domain.queues import (
    BorrowWithinCohortPolicy,
    ClusterQueue,
    Cohort,
    ReclaimWithinCohort,
    ResourceGroup,
    WithinClusterQueue,
)

FR = tuple[str, str]
Vector = Mapping[FR, int]
Share = tuple[bool, Fraction]
"""Whether it is a borrower without weight, and the (weighted) ratio."""

IN_QUEUE = "InClusterQueue"
RECLAIMED = "InCohortReclamation"
WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
BY_SHARE = "InCohortFairSharing"


@dataclass(frozen=True)
class Held:
    """Who has quota."""

    id: str
    queue: str
    usage: Vector
    priority: int
    queued_at: int
    reserved_at: int
    evicting: bool = False


@dataclass(frozen=True)
class Asker:
    """Who wants some: requests by resource, of every pod set."""

    id: str
    queue: str
    pod_sets: tuple[Mapping[str, int], ...]
    priority: int
    queued_at: int


@dataclass(frozen=True)
class World:
    """Queues by name, cohorts by `@name`, and who uses what."""

    queues: Mapping[str, ClusterQueue]
    cohorts: Mapping[str, Cohort]
    held: tuple[Held, ...]
    fair: FairSharing | None = None
    charged: tuple[tuple[str, Vector], ...] = ()

    def without(self, ids: Iterable[str]) -> "World":
        gone = set(ids)
        return replace(self, held=tuple(one for one in self.held if one.id not in gone))

    def charging(self, queue: str, usage: Vector) -> "World":
        return replace(self, charged=(*self.charged, (queue, usage)))

    def parent(self, node: str) -> str | None:
        cohort = node.startswith("@")
        name = self.cohorts[node].parent if cohort else self.queues[node].cohort
        return f"@{name}" if name else None

    def above(self, node: str) -> list[str]:
        found: list[str] = []
        parent = self.parent(node)
        while parent is not None:
            found.append(parent)
            parent = self.parent(parent)
        return found

    def child_queues(self, cohort: str) -> list[str]:
        return [name for name in sorted(self.queues) if self.parent(name) == cohort]

    def child_cohorts(self, cohort: str) -> list[str]:
        return [name for name in sorted(self.cohorts) if self.parent(name) == cohort]

    def queues_below(self, cohort: str) -> list[str]:
        return [name for name in sorted(self.queues) if cohort in self.above(name)]

    @cached_property
    def _quotas(self) -> dict[tuple[str, FR], tuple[int, int | None, int | None]]:
        found: dict[tuple[str, FR], tuple[int, int | None, int | None]] = {}
        groups: list[tuple[str, ResourceGroup]] = [
            (name, group)
            for name, node in (*self.queues.items(), *self.cohorts.items())
            for group in node.resource_groups
        ]
        for name, group in groups:
            for flavor in group.flavors:
                for resource, quota in flavor.resources.items():
                    found[name, (flavor.flavor, resource)] = (
                        quota.nominal_milli,
                        quota.borrowing_limit_milli,
                        quota.lending_limit_milli,
                    )
        return found

    @cached_property
    def pairs(self) -> list[FR]:
        return sorted({fr for _, fr in self._quotas})

    def quota(self, node: str, fr: FR) -> tuple[int, int | None, int | None]:
        return self._quotas.get((node, fr), (0, None, None))

    def sub(self, node: str, fr: FR) -> int:
        total = self.quota(node, fr)[0]
        if node.startswith("@"):
            for child in (*self.child_queues(node), *self.child_cohorts(node)):
                total += self.sub(child, fr) - self.local(child, fr)
        return total

    def local(self, node: str, fr: FR) -> int:
        lending = self.quota(node, fr)[2]
        return 0 if lending is None else max(0, self.sub(node, fr) - lending)

    def used(self, node: str, fr: FR) -> int:
        if not node.startswith("@"):
            own = [one.usage for one in self.held if one.queue == node]
            own += [usage for queue, usage in self.charged if queue == node]
            return sum(usage.get(fr, 0) for usage in own)
        children = (*self.child_queues(node), *self.child_cohorts(node))
        return sum(max(0, self.used(child, fr) - self.local(child, fr)) for child in children)

    def local_available(self, node: str, fr: FR) -> int:
        return max(0, self.local(node, fr) - self.used(node, fr))

    def available(self, node: str, fr: FR) -> int:
        parent = self.parent(node)
        if parent is None:
            return self.sub(node, fr) - self.used(node, fr)
        from_parent = self.available(parent, fr)
        limit = self.quota(node, fr)[1]
        if limit is not None:
            local = self.local(node, fr)
            taken = max(0, self.used(node, fr) - local)
            from_parent = min(from_parent, self.sub(node, fr) - local - taken + limit)
        return self.local_available(node, fr) + from_parent

    def potential(self, node: str, fr: FR) -> int:
        parent = self.parent(node)
        if parent is None:
            return self.sub(node, fr)
        reach = self.local(node, fr) + self.potential(parent, fr)
        limit = self.quota(node, fr)[1]
        return reach if limit is None else min(reach, self.sub(node, fr) + limit)

    def fits(self, queue: str, usage: Vector) -> bool:
        return all(amount <= max(0, self.available(queue, fr)) for fr, amount in usage.items())

    def borrows_with(self, node: str, fr: FR, extra: int = 0) -> bool:
        return self.sub(node, fr) < self.used(node, fr) + extra

    def borrows(self, node: str, frs: Iterable[FR]) -> bool:
        return any(self.borrows_with(node, fr) for fr in frs)

    def height(self, cohort: str) -> int:
        inner = self.child_cohorts(cohort)
        count = len(inner) + len(self.child_queues(cohort))
        return max(min(count, 1), 1 + max((self.height(child) for child in inner), default=-1))

    def borrow_level(self, queue: str, fr: FR, amount: int) -> tuple[int, bool]:
        if self.parent(queue) is None or not self.borrows_with(queue, fr, amount):
            return 0, self.parent(queue) is not None
        rest = amount - self.local_available(queue, fr)
        for cohort in self.above(queue):
            if self.sub(cohort, fr) >= self.used(cohort, fr) + rest:
                return self.height(cohort), self.parent(cohort) is not None
            rest -= self.local_available(cohort, fr)
        return self.height(self.above(queue)[-1]), False

    def share(self, node: str) -> tuple[Share, bool]:
        """R-60: the share and whether it borrows anything."""
        parent = self.parent(node)
        if parent is None:
            return (False, Fraction(0)), False
        borrowed: dict[str, int] = {}
        for fr in self.pairs:
            over = self.used(node, fr) - self.sub(node, fr)
            if over > 0:
                borrowed[fr[1]] = borrowed.get(fr[1], 0) + over
        ratio = Fraction(0)
        for resource, amount in borrowed.items():
            lendable = sum(self.potential(parent, fr) for fr in self.pairs if fr[1] == resource)
            if lendable > 0:
                ratio = max(ratio, Fraction(amount, lendable))
        weight = (self.cohorts if node.startswith("@") else self.queues)[node].fair_weight_milli
        if ratio == 0 or weight == 0:
            return (ratio > 0, ratio), bool(borrowed)
        return (False, ratio * 1000 / weight), bool(borrowed)


def allowed(world: World, asker: Asker, held: Held) -> bool:
    """R-50."""
    policy = world.queues[asker.queue].preemption
    own = held.queue == asker.queue
    right = policy.within_cluster_queue if own else policy.reclaim_within_cohort
    match right:
        case WithinClusterQueue.LOWER_PRIORITY | ReclaimWithinCohort.LOWER_PRIORITY:
            return asker.priority > held.priority
        case (
            WithinClusterQueue.LOWER_OR_NEWER_EQUAL_PRIORITY
            | ReclaimWithinCohort.LOWER_OR_NEWER_EQUAL_PRIORITY
        ):
            older = asker.queued_at < held.queued_at
            return asker.priority > held.priority or (asker.priority == held.priority and older)
        case ReclaimWithinCohort.ANY:
            return True
        case _:
            return False


def _rank(asker: Asker, held: Held) -> tuple[bool, bool, int, int, str]:
    own = held.queue == asker.queue
    return not held.evicting, own, held.priority, -held.reserved_at, held.id


@dataclass(frozen=True)
class _Candidate:
    held: Held
    reason: str
    top: str = ""
    only_without_borrowing: bool = False


Victims = list[tuple[str, str]]


def victims(world: World, asker: Asker, need: frozenset[FR], usage: Vector) -> Victims:
    """Who gives way, and by what right."""
    if world.fair is None:
        return _classical(world, asker, need, usage)
    return _fair(world, asker, need, usage, world.fair)


def _classical(world: World, asker: Asker, need: frozenset[FR], usage: Vector) -> Victims:
    queue = world.queues[asker.queue]
    never = queue.preemption.borrow_within_cohort.policy is BorrowWithinCohortPolicy.NEVER
    hierarchical, other, own = _collect(world, asker, need, usage)
    lists = [sorted(one, key=lambda c: _rank(asker, c.held)) for one in (hierarchical, other, own)]
    sequence = [c for one in lists for c in one if c.held.evicting]
    sequence += [c for one in lists for c in one if not c.held.evicting]
    below = all(world.used(asker.queue, fr) < world.sub(asker.queue, fr) for fr in need)
    attempts = (True, False)
    if not (hierarchical or other) or (never and not below):
        attempts = (True,)
    elif never and not hierarchical:
        attempts = (False, True)
    for borrowing in attempts:
        found = _attempt(world, asker, need, usage, sequence, borrowing=borrowing)
        if found:
            return found
    return []


def _collect(
    world: World, asker: Asker, need: frozenset[FR], usage: Vector
) -> tuple[list[_Candidate], list[_Candidate], list[_Candidate]]:
    """R-51 and R-52."""
    policy = world.queues[asker.queue].preemption
    touching = [one for one in world.held if need & one.usage.keys()]
    own = [
        _Candidate(one, IN_QUEUE)
        for one in touching
        if one.queue == asker.queue and allowed(world, asker, one)
    ]
    hierarchical: list[_Candidate] = []
    other: list[_Candidate] = []
    node, rest = asker.queue, dict(usage)
    advantage = False
    seen: set[str] = {asker.queue}
    for cohort in world.above(asker.queue):
        advantage = advantage or all(
            world.sub(node, fr) >= world.used(node, fr) + amount for fr, amount in rest.items()
        )
        rest = {fr: max(0, n - world.local_available(node, fr)) for fr, n in rest.items()}
        for one in touching:
            above = world.above(one.queue)
            if one.queue in seen or cohort not in above:
                continue
            between = [one.queue, *above[: above.index(cohort)]]
            if not all(world.borrows(part, need) for part in between):
                continue
            if not allowed(world, asker, one):
                continue
            if advantage:
                hierarchical.append(_Candidate(one, RECLAIMED, cohort))
                continue
            within = policy.borrow_within_cohort
            limit = within.max_priority_threshold
            protected = one.priority >= asker.priority or (
                limit is not None and one.priority > limit
            )
            kept = within.policy is BorrowWithinCohortPolicy.NEVER or protected
            reason = RECLAIMED if kept else WHILE_BORROWING
            other.append(_Candidate(one, reason, cohort, kept))
        seen |= set(world.queues_below(cohort))
        node = cohort
    return hierarchical, other, own


def _attempt(
    world: World,
    asker: Asker,
    need: frozenset[FR],
    usage: Vector,
    sequence: Sequence[_Candidate],
    *,
    borrowing: bool,
) -> Victims:
    """R-55."""
    targets: list[_Candidate] = []
    for candidate in sequence:
        now = world.without(c.held.id for c in targets)
        queue = candidate.held.queue
        if queue != asker.queue:
            above = now.above(queue)
            between = [queue, *above[: above.index(candidate.top)]]
            if borrowing and candidate.only_without_borrowing:
                continue
            if not all(now.borrows(part, need) for part in between):
                continue
        targets.append(candidate)
        if _enough(world, asker, usage, targets, borrowing=borrowing):
            kept = _fill_back(world, asker, usage, targets, borrowing=borrowing)
            return [(c.held.id, c.reason) for c in kept]
    return []


def _enough(
    world: World, asker: Asker, usage: Vector, gone: Sequence[_Candidate], *, borrowing: bool
) -> bool:
    now = world.without(candidate.held.id for candidate in gone)
    if not borrowing and any(now.borrows_with(asker.queue, fr, n) for fr, n in usage.items()):
        return False
    return now.fits(asker.queue, usage)


def _fill_back(
    world: World, asker: Asker, usage: Vector, targets: list[_Candidate], *, borrowing: bool
) -> list[_Candidate]:
    kept = list(targets)
    for index in range(len(kept) - 2, -1, -1):
        left = kept[:index] + kept[index + 1 :]
        if _enough(world, asker, usage, left, borrowing=borrowing):
            kept[index] = kept[-1]
            kept.pop()
    return kept


@dataclass
class _Fair:
    """One search under fair sharing; `world` loses victims as it goes on."""

    world: World
    asker: Asker
    usage: Vector
    waiting: dict[str, list[Held]]
    pruned: set[str] = field(default_factory=set[str])

    def charged(self) -> World:
        return self.world.charging(self.asker.queue, self.usage)

    def next(self) -> str | None:
        above = self.world.above(self.asker.queue)
        if not above:
            return self.asker.queue if self.waiting.get(self.asker.queue) else None
        while above[-1] not in self.pruned:
            found = self._below(above[-1])
            if found is not None:
                return found
        return None

    def _below(self, cohort: str) -> str | None:
        best, inner = self._best_queue(cohort), self._best_cohort(cohort)
        if inner is not None and (best is None or inner[0] >= best[0]):
            return self._below(inner[1])
        if best is None:
            self.pruned.add(cohort)
            return None
        return best[1]

    def _best_queue(self, cohort: str) -> tuple[Share, str] | None:
        world = self.charged()
        best: tuple[Share, str] | None = None
        for queue in world.child_queues(cohort):
            share, borrowing = world.share(queue)
            if not self.waiting.get(queue) or not (borrowing or queue == self.asker.queue):
                self.pruned.add(queue)
            if queue in self.pruned:
                continue
            better = best is None or share > best[0]
            if best is not None and share == best[0]:
                first, second = self.waiting[queue][0], self.waiting[best[1]][0]
                better = _rank(self.asker, first) < _rank(self.asker, second)
            if better:
                best = share, queue
        return best

    def _best_cohort(self, cohort: str) -> tuple[Share, str] | None:
        world = self.charged()
        best: tuple[Share, str] | None = None
        for child in world.child_cohorts(cohort):
            share, borrowing = world.share(child)
            if not borrowing and child not in world.above(self.asker.queue):
                self.pruned.add(child)
            if child not in self.pruned and (best is None or share >= best[0]):
                best = share, child
        return best

    def almost(self, queue: str) -> tuple[str, str]:
        """The children of the lowest common ancestor on either way."""
        mine = [self.asker.queue, *self.world.above(self.asker.queue)]
        theirs = [queue, *self.world.above(queue)]
        common = next(node for node in mine if node in theirs)
        return mine[mine.index(common) - 1], theirs[theirs.index(common) - 1]

    def take(self, held: Held) -> bool:
        self.world = self.world.without((held.id,))
        return self.world.fits(self.asker.queue, self.usage)


def _fair(
    world: World, asker: Asker, need: frozenset[FR], usage: Vector, fair: FairSharing
) -> Victims:
    """R-63 to R-65."""
    reclaims = world.queues[asker.queue].preemption.reclaim_within_cohort
    waiting: dict[str, list[Held]] = {}
    root = world.above(asker.queue)[-1] if world.above(asker.queue) else None
    for one in sorted(world.held, key=lambda held: _rank(asker, held)):
        same_tree = root is not None and root in world.above(one.queue)
        if not need & one.usage.keys() or not allowed(world, asker, one):
            continue
        lends = same_tree and reclaims is not ReclaimWithinCohort.NEVER
        if one.queue == asker.queue or (lends and world.borrows(one.queue, need)):
            waiting.setdefault(one.queue, []).append(one)
    search = _Fair(world, asker, usage, waiting)
    targets: list[tuple[Held, str]] = []
    retry: list[Held] = []
    enough = _first_pass(search, need, fair, targets, retry)
    if not enough and len(fair.strategies) > 1:
        again: dict[str, list[Held]] = {}
        for one in sorted(retry, key=lambda held: _rank(asker, held)):
            again.setdefault(one.queue, []).append(one)
        enough = _second_pass(_Fair(search.world, asker, usage, again), targets)
    if not enough:
        return []
    chosen = [_Candidate(held, reason) for held, reason in targets]
    kept = _fill_back(world, asker, usage, chosen, borrowing=True)
    return [(c.held.id, c.reason) for c in kept]


def _first_pass(
    search: _Fair,
    need: frozenset[FR],
    fair: FairSharing,
    targets: list[tuple[Held, str]],
    retry: list[Held],
) -> bool:
    own = search.asker.queue
    nominal = fair.preempt_within_nominal and not search.charged().borrows(own, need)
    while (queue := search.next()) is not None:
        waiting = search.waiting[queue]
        if queue == own or nominal:
            held = waiting.pop(0)
            targets.append((held, IN_QUEUE if queue == own else RECLAIMED))
            if search.take(held):
                return True
            continue
        mine, theirs = search.almost(queue)
        new, old = search.charged().share(mine)[0], search.charged().share(theirs)[0]
        if new[0] and not old[0]:
            retry += waiting
            waiting.clear()
            continue
        while waiting:
            held = waiting.pop(0)
            final = search.charged().without((held.id,)).share(theirs)[0]
            by_final = fair.strategies[0] is FairStrategy.FINAL_SHARE
            if (new <= final) if by_final else (new < old):
                targets.append((held, BY_SHARE))
                if search.take(held):
                    return True
                break
            retry.append(held)
    return False


def _second_pass(search: _Fair, targets: list[tuple[Held, str]]) -> bool:
    while (queue := search.next()) is not None:
        mine, theirs = search.almost(queue)
        world = search.charged()
        if world.share(mine)[0] < world.share(theirs)[0]:
            held = search.waiting[queue].pop(0)
            targets.append((held, BY_SHARE))
            if search.take(held):
                return True
        search.pruned.add(queue)
    return False
