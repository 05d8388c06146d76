"""Every set of victims that the policies allow and that makes room, by trying them all.

For two queues of one flat cohort with one flavor: `q` preempts by lower priority in its own queue
and takes back from the other, as long as that one borrows.
"""

from itertools import combinations, permutations

from muster_scheduling import AdmissionView, AdmittedWorkload

from .builders import FR


def smallest_sets(view: AdmissionView, name: str, asks: int, priority: int) -> list[frozenset[str]]:
    """Sets that make room and of which nobody can be left out."""
    holders = list(view.holders.values())
    enough = [
        frozenset(holder.id for holder in chosen)
        for size in range(1, len(holders) + 1)
        for chosen in combinations(holders, size)
        if _allowed(view, name, chosen, priority) and _fits(view, asks, chosen)
    ]
    return [found for found in enough if not any(other < found for other in enough)]


def needless(view: AdmissionView, name: str, asks: int, found: list[str]) -> list[str]:
    """Victims without whom it would still fit, and into the queue's own quota."""
    mine = view.tree.queues[name]
    spared: list[str] = []
    for victim in found:
        gone = tuple(view.holders[other] for other in found if other != victim)
        own = sum(holder.usage[FR] for holder in gone if holder.cluster_queue == name)
        within = mine.used(FR) - own + asks <= mine.nominal(FR)
        if within and _fits(view, asks, gone):
            spared.append(victim)
    return spared


def _fits(view: AdmissionView, asks: int, gone: tuple[AdmittedWorkload, ...]) -> bool:
    left = [holder for holder in view.holders.values() if holder not in gone]
    total = sum(node.nominal(FR) for node in view.tree.queues.values())
    return sum(holder.usage[FR] for holder in left) + asks <= total


def _allowed(
    view: AdmissionView, name: str, chosen: tuple[AdmittedWorkload, ...], priority: int
) -> bool:
    mine = [holder for holder in chosen if holder.cluster_queue == name]
    if any(holder.priority >= priority for holder in mine):
        return False
    theirs = [holder for holder in chosen if holder.cluster_queue != name]
    return any(_borrows_throughout(view, order) for order in permutations(theirs))


def _borrows_throughout(view: AdmissionView, order: tuple[AdmittedWorkload, ...]) -> bool:
    used = {queue: node.used(FR) for queue, node in view.tree.queues.items()}
    for holder in order:
        queue = holder.cluster_queue
        if used[queue] <= view.tree.queues[queue].nominal(FR):
            return False
        used[queue] -= holder.usage[FR]
    return True
