"""Preferred topology with pods spread evenly over as few domains as possible (R-86).

An option of Kueue's in alpha. Where it finds nothing, best fit decides.
"""

from dataclasses import dataclass, replace

import numpy as np

from muster_scheduling.placement.columns import Vector
from muster_scheduling.placement.topology.counts import Counts, count_up
from muster_scheduling.placement.topology.selection import Chosen, Selection
from muster_scheduling.placement.topology.terms import Terms, TopologyOptions
from muster_scheduling.placement.topology.tree import TopologyTree

_LOG_POWER = 4096
"""log2(n) is taken as the bit length of n**4096: exact to 1/4096, and an integer."""


@dataclass(frozen=True, slots=True)
class _Greedy:
    """How the largest domains first would do it: how many, and the least filled of each kind."""

    domains: int
    last_with_leader: int | None
    last: int | None


@dataclass(slots=True)
class _Siblings:
    """Domains below one parent, pruned of all that hold less than `threshold` slices."""

    search: Selection
    domains: Vector
    threshold: int
    used: int


def choose(tree: TopologyTree, counts: Counts, terms: Terms, options: TopologyOptions) -> Chosen:
    """The placement of a request: balanced where that is asked for and possible, else best fit.

    Uses up its counts. Raises `NotFitting`.
    """
    if options.balanced and not terms.required and not terms.unconstrained:
        balanced = choose_balanced(tree, counts, terms, options)
        if balanced is not None:
            return balanced
    return Selection(tree, counts, terms, options).run()


def choose_balanced(
    tree: TopologyTree, counts: Counts, terms: Terms, options: TopologyOptions
) -> Chosen | None:
    """The balanced placement, or `None` where there is none. Leaves `counts` as they are."""
    best: _Siblings | None = None
    for domains in _sibling_sets(tree, terms.level):
        found = _siblings(Selection(tree, counts, terms, options), domains, best)
        if found is not None and (best is None or _is_better(found, best)):
            best = found
    return _place(best) if best is not None else None


def _sibling_sets(tree: TopologyTree, level: int) -> list[Vector]:
    if level == 0:
        return [np.arange(len(tree.levels[0].paths))]
    above = range(len(tree.levels[level - 1].paths))
    return [tree.children(level - 1, [parent]) for parent in above]


def _is_better(found: _Siblings, best: _Siblings) -> bool:
    return (-found.threshold, found.used) < (-best.threshold, best.used)


def _siblings(search: Selection, domains: Vector, best: _Siblings | None) -> _Siblings | None:
    terms, level = search.terms, search.terms.level
    lower, inside = level, domains
    if level < terms.slice_level:
        lower, inside = level + 1, search.tree.children(level, domains.tolist())
    greedy = _greedy(search, lower, inside)
    if greedy is None or not greedy.domains:
        return None
    counts = search.counts[lower]
    threshold = terms.slices // greedy.domains
    if greedy.last_with_leader is not None:
        threshold = min(threshold, int(counts.slices_with_leader[greedy.last_with_leader]))
    reserving = threshold
    if greedy.last is not None:
        threshold = min(threshold, int(counts.slices[greedy.last]))
        reserving = threshold
        if terms.leaders:
            reserving = min(threshold, int(counts.slices_with_leader[greedy.last]))
    floor = best.threshold if best is not None else 1
    if threshold < floor:
        return None
    found = _pruned(search, domains, threshold)
    if found is None and floor <= reserving < threshold:
        found = _pruned(search, domains, reserving)
    return found


def _greedy(search: Selection, level: int, domains: Vector) -> _Greedy | None:
    counts, terms = search.counts[level], search.terms
    slices, leaders = terms.slices, terms.leaders
    used = 0
    last_with_leader: int | None = None
    if leaders:
        domains = search.ordered(level, domains, with_leader=True)
        while leaders and used < len(domains) and counts.leaders[domains[used]]:
            last_with_leader = int(domains[used])
            leaders -= int(counts.leaders[last_with_leader])
            slices -= int(counts.slices_with_leader[last_with_leader])
            used += 1
    if leaders:
        return None
    last: int | None = None
    for domain in search.ordered(level, domains[used:]).tolist():
        if slices <= 0 or not counts.slices[domain]:
            break
        last = domain
        slices -= int(counts.slices[domain])
        used += 1
    return None if slices > 0 else _Greedy(used, last_with_leader, last)


def _pruned(search: Selection, domains: Vector, threshold: int) -> _Siblings | None:
    tree, level = search.tree, search.terms.level
    copied = [of_level.copy() for of_level in search.counts]
    if level < tree.lowest:
        _prune(tree, copied, level + 1, tree.children(level, domains.tolist()), threshold)
    plain = replace(search.terms, inner_sizes={})
    recounted = count_up(tree, copied[-1], plain)
    _prune(tree, recounted, level, domains, threshold)
    pruned = Selection(tree, recounted, search.terms, search.options)
    greedy = _greedy(pruned, level, domains)
    return None if greedy is None else _Siblings(pruned, domains, threshold, greedy.domains)


def _prune(tree: TopologyTree, counts: Counts, level: int, domains: Vector, threshold: int) -> None:
    """Clear domains that hold too little, and leader places that would leave too little."""
    here = counts[level]
    small = here.slices[domains] < threshold
    hosts = (here.leaders[domains] > 0) & (here.slices_with_leader[domains] < threshold)
    cleared, without_leader = domains[small], domains[~small & hosts]
    for depth in range(level, tree.lowest + 1):
        of_level = counts[depth]
        for vector in (of_level.pods, of_level.slices):
            vector[cleared] = 0
        both = np.concatenate((cleared, without_leader))
        for vector in (of_level.pods_with_leader, of_level.slices_with_leader, of_level.leaders):
            vector[both] = 0
        if depth < tree.lowest:
            cleared = tree.children(depth, cleared.tolist())
            without_leader = tree.children(depth, without_leader.tolist())


def _place(best: _Siblings) -> Chosen | None:
    search, level, domains = best.search, best.search.terms.level, best.domains
    if level < search.terms.slice_level:
        chosen = _smallest_set(search, level, domains, by_entropy=True)
        if chosen is None:
            return None
        domains = search.tree.children(level, chosen)
        level += 1
    used = _share_out(search, level, domains, best.threshold)
    return None if used is None else search.finish(level, used)


def _share_out(search: Selection, level: int, domains: Vector, threshold: int) -> Vector | None:
    """Give each domain its threshold and the rest in order."""
    counts, terms = search.counts[level], search.terms
    chosen = _smallest_set(search, level, domains, by_entropy=False)
    if chosen is None or terms.slices < len(chosen) * threshold:
        return None
    used = search.ordered(level, np.array(chosen, np.int64), with_leader=True)
    extra, leaders = terms.slices - len(used) * threshold, terms.leaders
    for domain in used.tolist():
        hosts = leaders > 0
        capacity = counts.slices_with_leader if hosts else counts.slices
        more = min(int(capacity[domain]) - threshold, extra) if hosts or extra else 0
        extra -= more
        leaders -= hosts
        counts.leaders[domain] = int(hosts)
        counts.slices[domain] = counts.slices_with_leader[domain] = threshold + more
        counts.pods[domain] = (threshold + more) * terms.slice_size
        counts.pods_with_leader[domain] = counts.pods[domain] - int(hosts)
    return None if extra or leaders else used


def _smallest_set(
    search: Selection, level: int, domains: Vector, *, by_entropy: bool
) -> list[int] | None:
    """The greedy number of domains with the least capacity that still holds everything.

    Goes through the domains once; after each, what sets of each size leave unseated.
    """
    counts, terms = search.counts[level], search.terms
    greedy = _greedy(search, level, domains)
    if greedy is None:
        return None
    ordered = _by_entropy(search, level, domains) if by_entropy else sorted(domains.tolist())
    left: list[dict[tuple[int, int], tuple[int, ...]]] = [{} for _ in range(greedy.domains + 1)]
    left[0][terms.leaders, terms.slices * terms.slice_size] = ()
    for domain in ordered:
        for size in range(greedy.domains, 0, -1):
            for leaders, pods in sorted(left[size - 1]):
                if leaders <= 0 and pods <= 0:
                    continue
                members = (*left[size - 1][leaders, pods], domain)
                if leaders > 0 and counts.leaders[domain]:
                    after = leaders - 1, pods - int(counts.pods_with_leader[domain])
                    left[size].setdefault(after, members)
                if counts.slices[domain]:
                    left[size].setdefault((leaders, pods - int(counts.pods[domain])), members)
    done = [pods for leaders, pods in left[-1] if leaders == 0 and pods <= 0]
    return list(left[-1][0, max(done)]) if done else None


def _by_entropy(search: Selection, level: int, domains: Vector) -> list[int]:
    counts = search.counts[level]

    def key(domain: int) -> tuple[int, int, int, int]:
        entropy = _entropy(search, level, domain)
        return (
            -int(counts.leaders[domain]),
            -int(counts.slices_with_leader[domain]),
            -entropy,
            domain,
        )

    return sorted(domains.tolist(), key=key)


def _entropy(search: Selection, level: int, domain: int) -> int:
    """How evenly a domain's children could be filled, in parts of a bit."""
    children = search.tree.children(level, [domain])
    pods: list[int] = search.counts[level + 1].pods[children].tolist()
    total = sum(pods)
    return sum(count * (_log2(total) - _log2(count)) for count in pods if count) // max(1, total)


def _log2(number: int) -> int:
    return (number**_LOG_POWER).bit_length()
