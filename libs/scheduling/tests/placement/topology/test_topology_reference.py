"""Topology assignments against Kueue's rules read once more (R-81 to R-85a), on floors from seeds.

Domains are plain objects that are counted, sorted and used up one by one, from the text alone.
"""

from dataclasses import dataclass, field
from random import Random

import pytest

from muster_scheduling.placement.topology.find import NoTopology, find_assignments
from muster_scheduling.placement.topology.terms import TopologyOptions

from .floor import HOST, LEVELS, counts, floor, pods, request

SEEDS = range(250)


@dataclass(eq=False)
class Domain:
    """What fits in it, alone and beside a leader; `took` what it was given in the end."""

    path: tuple[str, ...]
    cores: int = 0
    children: list["Domain"] = field(default_factory=list["Domain"])
    pods: int = 0
    beside: int = 0
    slices: int = 0
    slices_beside: int = 0
    leaders: int = 0


@dataclass(frozen=True)
class Ask:
    """Pods of one core, perhaps with a leader of `leader` cores."""

    count: int
    mode: str
    level: int
    slice_level: int = 2
    size: int = 1
    inner: int = 0
    """The size of slices of hosts inside those of racks; 0 for none."""
    leader: int = 0

    @property
    def needed(self) -> int:
        return self.count // self.size

    @property
    def least_free(self) -> bool:
        return self.mode == "unconstrained"


class NoRoom(Exception):
    """Nothing holds it."""


def grow(cpus: dict[str, int]) -> dict[tuple[str, ...], Domain]:
    found: dict[tuple[str, ...], Domain] = {(): Domain(())}
    for text, cores in sorted(cpus.items()):
        path = tuple(text.split())
        for depth in range(1, len(path) + 1):
            if path[:depth] not in found:
                found[path[:depth]] = Domain(path[:depth])
                found[path[: depth - 1]].children.append(found[path[:depth]])
        found[path].cores = cores
    return found


def count(domain: Domain, ask: Ask) -> None:
    """R-81."""
    level = len(domain.path) - 1
    for child in domain.children:
        count(child, ask)
    if not domain.children:
        domain.pods = domain.cores
        domain.leaders = int(0 < ask.leader <= domain.cores)
        domain.beside = domain.pods - ask.leader * domain.leaders
    else:
        size = ask.inner or 1 if level + 1 > ask.slice_level else 1
        plain = [child.pods // size * size for child in domain.children]
        beside = [child.beside // size * size for child in domain.children]
        able = [not ask.leader or child.leaders > 0 for child in domain.children]
        lost = [p - b for p, b, fits in zip(plain, beside, able, strict=True) if fits]
        domain.pods = sum(plain)
        domain.beside = domain.pods - min(lost) if lost else 0
        domain.slices = sum(child.slices for child in domain.children)
        lost_slices = [
            child.slices - child.slices_beside
            for child, fits in zip(domain.children, able, strict=True)
            if fits
        ]
        domain.slices_beside = domain.slices - min(lost_slices) if lost_slices else 0
        domain.leaders = max(child.leaders for child in domain.children)
    if level == ask.slice_level:
        domain.slices, domain.slices_beside = domain.pods // ask.size, domain.beside // ask.size


def ordered(domains: list[Domain], ask: Ask, *, leader: bool = False) -> list[Domain]:
    """R-83."""
    sign = 1 if ask.least_free else -1

    def key(domain: Domain) -> tuple[int, int, int, tuple[str, ...]]:
        if leader:
            return -domain.leaders, sign * domain.slices_beside, domain.beside, domain.path
        return 0, sign * domain.slices, domain.pods, domain.path

    return sorted(domains, key=key)


def tightest(domains: list[Domain], needed: int, leaders: int, *, by_slices: bool) -> Domain:
    def holds(domain: Domain) -> int:
        if by_slices:
            return domain.slices_beside if leaders else domain.slices
        return domain.beside if leaders else domain.pods

    able = [d for d in domains if holds(d) >= needed and d.leaders >= leaders]
    return min(able, key=holds) if able else domains[0]


def leader_first(
    domains: list[Domain], needed: int, leaders: int, *, by_slices: bool
) -> list[Domain]:
    """R-85a."""
    if not leaders:
        return domains
    plain = {d: d.slices if by_slices else d.pods for d in domains}
    beside = {d: d.slices_beside if by_slices else d.beside for d in domains}
    total = sum(plain.values())
    for domain in domains:
        if domain.leaders and total - (plain[domain] - beside[domain]) >= needed:
            return [domain, *(other for other in domains if other is not domain)]
    return domains


def choose(tree: dict[tuple[str, ...], Domain], ask: Ask, level: int) -> tuple[int, list[Domain]]:
    """R-84."""
    line = ordered([d for path, d in tree.items() if len(path) == level + 1], ask, leader=True)
    leaders = int(ask.leader > 0)
    alone = [d for d in line if d.slices_beside >= ask.needed and d.leaders >= leaders]
    if ask.least_free and alone:
        return level, alone[:1]
    if alone and alone[0] is line[0]:
        return level, [tightest_beside(line, ask.needed, leaders)]
    if ask.mode == "required":
        raise NoRoom
    if ask.mode == "preferred" and level:
        return choose(tree, ask, level - 1)
    return level, greedy(line, ask, leaders)


def tightest_beside(domains: list[Domain], needed: int, leaders: int) -> Domain:
    able = [d for d in domains if d.slices_beside >= needed and d.leaders >= leaders]
    return min(able, key=lambda domain: domain.slices_beside) if able else domains[0]


def greedy(line: list[Domain], ask: Ask, leaders: int) -> list[Domain]:
    needed, used = ask.needed, list[Domain]()
    line = leader_first(line, needed, leaders, by_slices=True)
    if leaders:
        if not line[0].leaders:
            raise NoRoom
        first = line[0]
        if not ask.least_free and first.slices_beside >= needed:
            first = tightest_beside(line, needed, leaders)
        used.append(first)
        needed -= first.slices_beside
        line = line[1:]
    line = ordered(line, ask)
    for index, domain in enumerate(line):
        if needed <= 0:
            break
        taken = domain
        if not ask.least_free and domain.slices >= needed:
            taken = tightest(line[index:], needed, 0, by_slices=True)
        used.append(taken)
        needed -= taken.slices
    if needed > 0:
        raise NoRoom
    return used


def consume(
    line: list[Domain], ask: Ask, needed: int, leaders: int, size: int, *, by_slices: bool
) -> list[Domain]:
    """R-85: each is used up, the last one only as far as needed."""
    line = leader_first(line, needed, leaders, by_slices=by_slices)
    used: list[Domain] = []
    for index, domain in enumerate(line):
        chosen = domain
        holds = _holds(domain, leaders, by_slices=by_slices)
        if not ask.least_free and holds >= needed and domain.leaders >= leaders:
            chosen = tightest(line[index:], needed, leaders, by_slices=by_slices)
        taken = min(_holds(chosen, leaders, by_slices=by_slices), needed)
        chosen.leaders = min(chosen.leaders, leaders)
        leaders -= chosen.leaders
        needed -= taken
        chosen.pods = taken * size
        chosen.slices = chosen.slices_beside = taken
        used.append(chosen)
        if not needed and not leaders:
            break
    return used


def _holds(domain: Domain, leaders: int, *, by_slices: bool) -> int:
    if by_slices:
        return domain.slices_beside if leaders else domain.slices
    return domain.beside if leaders else domain.pods


def place(cpus: dict[str, int], ask: Ask) -> tuple[dict[str, int], str]:
    """Pods by host, and the leader's host."""
    tree = grow(cpus)
    for root in tree[()].children:
        count(root, ask)
    level, chosen = choose(tree, ask, ask.level)
    leaders = int(ask.leader > 0)
    chosen = consume(chosen, ask, ask.needed, leaders, ask.size, by_slices=True)
    while level < ask.slice_level:
        below = ordered([child for domain in chosen for child in domain.children], ask)
        chosen = consume(below, ask, ask.needed, leaders, ask.size, by_slices=True)
        level += 1
    while level < len(LEVELS) - 1:
        size = ask.inner or 1
        after: list[Domain] = []
        for domain in chosen:
            line = ordered(domain.children, ask)
            for child in line if size > 1 else ():
                child.slices, child.slices_beside = child.pods // size, child.beside // size
            after += consume(
                line, ask, domain.pods // size, domain.leaders, size, by_slices=size > 1
            )
        chosen = after
        level += 1
    seated = {domain.path[-1]: domain.pods for domain in chosen if domain.pods}
    return seated, next((domain.path[-1] for domain in chosen if domain.leaders), "")


def random_case(seed: int) -> tuple[dict[str, int], Ask]:
    random = Random(seed)
    cpus = {
        f"b{random.randint(1, 2)} r{random.randint(1, 3)} x{number}": random.randint(0, 6)
        for number in range(random.randint(2, 9))
    }
    mode = random.choice(["required", "preferred", "unconstrained"])
    leader = random.choice([0, 0, 1, 2, 4])
    if mode == "unconstrained":
        return cpus, Ask(random.randint(1, 16), mode, 2, leader=leader)
    level = random.randint(0, 2)
    slice_level = random.randint(level, 2)
    size = random.choice([1, 2, 3, 4])
    inner = 2 if slice_level == 1 and size == 4 and random.random() < 0.6 else 0
    total = random.randint(1, 6) * size
    return cpus, Ask(total, mode, level, slice_level, size, inner, leader)


@pytest.mark.parametrize("seed", SEEDS)
def test_pods_sit_where_the_rules_say(seed: int) -> None:
    cpus, ask = random_case(seed)
    slices = f"{_word(ask.slice_level)}:{ask.size}" if ask.mode != "unconstrained" else ""
    slices += f" host:{ask.inner}" if ask.inner else ""
    label = LEVELS[ask.level] if ask.mode != "unconstrained" else ""
    group = "g" if ask.leader else ""
    topology = request(ask.mode, label, slices=slices, group=group)
    sets = [pods(ask.count, topology, name="workers")]
    if ask.leader:
        sets.append(pods(1, topology, name="leader", cpu=ask.leader))
    found = find_assignments(floor(cpus), sets, TopologyOptions())
    try:
        seated, leader = place(cpus, ask)
    except NoRoom:
        assert isinstance(found["workers"], NoTopology)
        return
    assert counts(found, "workers") == seated
    if ask.leader:
        assert counts(found, "leader") == {leader: 1}


def _word(level: int) -> str:
    return "host" if LEVELS[level] == HOST else LEVELS[level]
