"""The decision core against the rules read once more (`reference.py`), on trees made from seeds."""

from collections.abc import Mapping, Sequence
from random import Random

import pytest

from muster_domain.policy import FairSharing, FairStrategy, Policy
from muster_domain.queues import (
    BorrowWithinCohort,
    BorrowWithinCohortPolicy,
    ClusterQueue,
    Cohort,
    FlavorFungibility,
    FlavorQuotas,
    FungibilityPreference,
    PreemptionPolicy,
    QueueingStrategy,
    ReclaimWithinCohort,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
    WhenCan,
    WithinClusterQueue,
)
from muster_domain.selectors import Selector
from muster_domain.states import Admission, PodSetAdmission
from muster_domain.workload import LocalQueueRef, Owner, PodSet, Workload
from muster_scheduling import AdmissionView, PendingWorkload, hold, prepare
from muster_scheduling.admission import Budget, EvictWorkload, Place, ReserveQuota, decide
from muster_scheduling.preemption import Wanted, find_victims

from . import reference, reference_cycle
from .builders import K, view_of
from .reference import FR, Asker, Held, World

SEEDS = 25
FLAVORS = ("f1", "f2", "f3")
STRATEGIES = (
    (FairStrategy.FINAL_SHARE, FairStrategy.INITIAL_SHARE),
    (FairStrategy.FINAL_SHARE,),
    (FairStrategy.INITIAL_SHARE,),
)


def quotas(random: Random, most: int, *, limits: bool, lends: bool) -> tuple[ResourceGroup, ...]:
    """A group of GPU flavors and one of CPU."""
    groups: list[ResourceGroup] = []
    for resource, flavors in (("gpu", FLAVORS), ("cpu", ("f1",))):
        rows: list[FlavorQuotas] = []
        for flavor in flavors:
            nominal = random.randint(0, most)
            borrow = random.choice([None, 0, 2, 5]) if limits else None
            lend = random.choice([None, None, 0, nominal // 2]) if lends else None
            quota = ResourceQuota(
                nominal_milli=nominal * K,
                borrowing_limit_milli=None if borrow is None else borrow * K,
                lending_limit_milli=None if lend is None else lend * K,
            )
            rows.append(FlavorQuotas(flavor=flavor, resources={resource: quota}))
        groups.append(ResourceGroup(covered_resources=(resource,), flavors=tuple(rows)))
    return tuple(groups)


def some_flavor(random: Random) -> str:
    """Most want the same."""
    return random.choices(FLAVORS, [6, 2, 1])[0]


def random_queue(random: Random, name: str, cohort: str) -> ClusterQueue:
    reclaim = random.choice(list(ReclaimWithinCohort))
    while_borrowing = BorrowWithinCohort()
    if reclaim not in {ReclaimWithinCohort.NEVER, ReclaimWithinCohort.UNSET}:
        while_borrowing = BorrowWithinCohort(
            policy=random.choice(list(BorrowWithinCohortPolicy)),
            max_priority_threshold=random.choice([None, 0, 1]),
        )
    when = list(WhenCan)
    return ClusterQueue(
        name=name,
        cohort=cohort,
        resource_groups=quotas(random, 6, limits=bool(cohort), lends=bool(cohort)),
        namespace_selector=Selector(),
        queueing_strategy=random.choice(list(QueueingStrategy)),
        preemption=PreemptionPolicy(
            within_cluster_queue=random.choice(list(WithinClusterQueue)),
            reclaim_within_cohort=reclaim,
            borrow_within_cohort=while_borrowing,
        ),
        flavor_fungibility=FlavorFungibility(
            when_can_borrow=random.choice(when),
            when_can_preempt=random.choice(when),
            preference=random.choice(list(FungibilityPreference)),
        ),
        fair_weight_milli=random.choice([1000, 1000, 2000, 500, 0]),
    )


def random_cohorts(random: Random) -> list[Cohort]:
    def one(name: str, parent: str) -> Cohort:
        groups = quotas(random, 3, limits=bool(parent), lends=bool(parent))
        weight = random.choice([1000, 1000, 3000, 0])
        return Cohort(
            name=name,
            parent=parent,
            resource_groups=groups if random.random() < 0.6 else (),
            fair_weight_milli=weight,
        )

    return [one("root", ""), one("left", "root"), one("right", "root"), one("deep", "left")]


def world_of(seed: int, *, fair: bool) -> tuple[World, Random]:
    random = Random(seed)
    cohorts = random_cohorts(random)
    parents = ["root", "left", "right", "deep", ""]
    queues = [random_queue(random, f"q{n}", random.choice(parents)) for n in range(6)]
    held: list[Held] = []
    for number in range(random.randint(8, 20)):
        usage: dict[FR, int] = {(some_flavor(random), "gpu"): random.randint(1, 3) * K}
        if random.random() < 0.4:
            usage["f1", "cpu"] = random.randint(1, 3) * K
        held.append(
            Held(
                id=f"h{number:02}",
                queue=f"q{random.randrange(6)}",
                usage=usage,
                priority=random.randint(0, 2),
                queued_at=random.randint(0, 9),
                reserved_at=random.randint(0, 9),
                evicting=random.random() < 0.1,
            )
        )
    return (
        World(
            queues={q.name: q for q in queues},
            cohorts={f"@{c.name}": c for c in cohorts},
            held=tuple(held),
            fair=FairSharing(strategies=random.choice(STRATEGIES)) if fair else None,
        ),
        random,
    )


def view_of_world(world: World) -> AdmissionView:
    """The same world in the core's own terms."""
    view = view_of(
        list(world.queues.values()),
        list(world.cohorts.values()),
        flavors=[ResourceFlavor(name=name) for name in FLAVORS],
        policy=Policy(fair_sharing=world.fair),
    )
    for one in world.held:
        requests = {resource: amount for (_, resource), amount in one.usage.items()}
        flavors = {resource: flavor for flavor, resource in one.usage}
        grant = Admission(
            cluster_queue=one.queue,
            pod_sets=(PodSetAdmission(name="set0", count=1, flavors=flavors, usage=requests),),
        )
        workload = workload_of(one.id, one.queue, (requests,), one.priority, one.queued_at)
        view.charge(hold(workload, grant, view.policy, reserved_at_ms=one.reserved_at))
        if one.evicting:
            view.mark_evicting(one.id)
    return view


def workload_of(
    name: str, queue: str, pod_sets: Sequence[Mapping[str, int]], priority: int, created: int
) -> Workload:
    return Workload(
        id=name,
        namespace="ns",
        name=name,
        queue=LocalQueueRef(name=queue),
        pod_sets=tuple(
            PodSet(name=f"set{number}", count=1, requests=dict(requests))
            for number, requests in enumerate(pod_sets)
        ),
        owner=Owner(api_version="batch/v1", kind="Job", name=name),
        created_at_ms=created,
        priority=priority,
    )


def asker_of(random: Random, name: str, queue: str, *, sets: int = 1) -> Asker:
    pod_sets: list[dict[str, int]] = []
    for _ in range(sets):
        requests = {"gpu": random.randint(1, 6) * K}
        if random.random() < 0.4:
            requests["cpu"] = random.randint(1, 4) * K
        pod_sets.append(requests)
    return Asker(name, queue, tuple(pod_sets), random.randint(0, 4), random.randint(0, 9))


def pending_of(asker: Asker, view: AdmissionView) -> PendingWorkload:
    workload = workload_of(asker.id, asker.queue, asker.pod_sets, asker.priority, asker.queued_at)
    return prepare(workload, view.policy)


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_free(seed: int, fair: bool) -> None:  # noqa: FBT001 - a parameter of the test
    world, _ = world_of(seed, fair=fair)
    tree = view_of_world(world).tree
    for name, node in (*tree.queues.items(), *((f"@{n}", c) for n, c in tree.cohorts.items())):
        for fr in world.pairs:
            assert tree.available(node, fr) == world.available(name, fr)
            assert node.potential.get(fr, 0) == world.potential(name, fr)
            assert node.used(fr) == world.used(name, fr)
    for name, node in tree.queues.items():
        for fr in world.pairs:
            for amount in range(0, 12 * K, 2 * K):
                assert tree.borrow_level(node, fr, amount) == world.borrow_level(name, fr, amount)


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_who_gives_way(seed: int, fair: bool) -> None:  # noqa: FBT001 - a parameter of the test
    world, random = world_of(seed, fair=fair)
    view = view_of_world(world)
    for name in world.queues:
        asker = asker_of(random, "in", name)
        (requests,) = asker.pod_sets
        usage: dict[FR, int] = {(some_flavor(random), "gpu"): requests["gpu"]}
        if "cpu" in requests:
            usage["f1", "cpu"] = requests["cpu"]
        short = {fr for fr, n in usage.items() if n > max(0, world.available(name, fr))}
        need = frozenset(short or usage)
        wanted = Wanted(cluster_queue=name, usage=usage, need=need)
        victims = find_victims(view.snapshot(0), pending_of(asker, view), wanted)
        found = [(victim.id, str(victim.reason)) for victim in victims]
        assert found == reference.victims(world, asker, need, usage)


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_one_cycle(seed: int, fair: bool) -> None:  # noqa: FBT001 - a parameter of the test
    world, random = world_of(seed, fair=fair)
    view = view_of_world(world)
    heads = [
        asker_of(random, f"in-{name}", name, sets=random.choice([1, 1, 2])) for name in world.queues
    ]
    for head in heads:
        view.add_pending(pending_of(head, view), 0)
    decision = decide(view.snapshot(0), Budget(cycles=1))
    entries = reference_cycle.run_cycle(world, heads)
    reserved = {
        effect.workload_id: [dict(p.flavors) for p in effect.admission.pod_sets]
        for group in decision.groups
        for effect in group.effects
        if isinstance(effect, ReserveQuota)
    }
    assert reserved == {e.asker.id: e.assigned.flavors for e in entries if e.verdict == "fit"}
    evicted = {
        effect.workload_id: (str(effect.reason), effect.preemptor_id)
        for group in decision.groups
        for effect in group.effects
        if isinstance(effect, EvictWorkload)
    }
    going = {held.id for held in world.held if held.evicting}
    assert evicted == {
        victim: (reason, entry.asker.id)
        for entry in entries
        if entry.verdict == "preempting"
        for victim, reason in entry.victims
        if victim not in going
    }
    places = {step.workload_id: _plain(step.place) for step in decision.requeues}
    assert places == {
        e.asker.id: reference_cycle.place(world, e) for e in entries if e.verdict != "fit"
    }


def _plain(place: Place) -> str:
    return "parked" if place is Place.PARKED_WITH_SHAPE else str(place)
