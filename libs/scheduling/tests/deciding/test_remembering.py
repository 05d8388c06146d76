"""What the core remembers changes no decision: the same days with and without it, from seeds.

Without it victims are searched anew for every question, what a workload asks is worked out anew,
and a decision is done again step by step instead of as it was taken back.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from muster_scheduling import AdmissionView
from muster_scheduling.admission import Budget, Decision, EvictWorkload, decide

from .test_reference import asker_of, pending_of, view_of_world, world_of

SEEDS = 15
ROUNDS = 12


FORGOTTEN = (0, (), [])


class Forgetful(dict[Any, Any]):
    """Takes everything and keeps nothing."""

    def __setitem__(self, key: object, value: object) -> None:
        pass


class Always(dict[Any, Any]):
    """Knows what was put in last, and has it worked out anew all the same."""

    def __contains__(self, key: object) -> bool:
        return False


def forgetful(view: AdmissionView) -> AdmissionView:
    """The view without a memory."""
    view.answers = Forgetful()
    view.asks, view.possible = Always(), Forgetful()
    return view


def told(decision: Decision) -> tuple[object, ...]:
    """Everything that a decision says."""
    reasons = [(name, decision.explanations[name]) for name in decision.explanations]
    return replace(decision, explanations={}), reasons


def state(view: AdmissionView) -> tuple[object, ...]:
    """Everything that the next decision depends on, but for what is remembered."""
    lines = {
        name: (queue.active_ids(), queue.parked_ids(), dict(queue.sticky), dict(queue.bookmarks))
        for name, queue in view.queues.items()
    }
    usage = {name: dict(node.usage) for name, node in view.tree.queues.items()}
    holders = {key: (one.usage, one.admission) for key, one in view.holders.items()}
    changing = (view.evicting, view.claims, view.cycles, view.generations, view.dirty)
    return holders, lines, usage, tuple(dict(one) for one in changing)


class Days:
    """One view living through what chance brings; the same chance brings the same."""

    def __init__(self, view: AdmissionView, queues: list[str], seed: int, *, inline: bool) -> None:
        self.view = view
        self.forgets = isinstance(view.answers, Forgetful)
        self.queues = queues
        self.random = Random(seed)
        self.inline = inline

    def live(self) -> Iterator[object]:
        """What was decided in each round."""
        for number in range(ROUNDS):
            now_ms = number * 10
            self._happen(number, now_ms)
            decision = decide(
                self.view.snapshot(now_ms), Budget(workloads=40), victims_inline=self.inline
            )
            yield told(decision)
            if self.forgets:
                self.view.undone = FORGOTTEN
            self.view.apply(decision)
            yield state(self.view)
            self._follow(decision)

    def _happen(self, number: int, now_ms: int) -> None:
        for index in range(self.random.choice([0, 1, 3])):
            name = self.random.choice(self.queues)
            asker = asker_of(
                self.random, f"n{number:02}-{index}", name, sets=self.random.choice([1, 1, 2])
            )
            self.view.add_pending(pending_of(asker, self.view), now_ms)
        for holder in sorted(self.view.holders):
            chance = self.random.random()
            if chance < 0.05 or (chance < 0.4 and holder in self.view.evicting):
                self.view.release(holder)
            elif chance < 0.1:
                self.view.mark_saved(holder, now_ms)
            elif chance < 0.12:
                self.view.mark_evicting(holder)
        for waiting in sorted(self.view.claims):
            if self.random.random() < 0.3:
                self.view.drop_claim(waiting)

    def _follow(self, decision: Decision) -> None:
        """Preemptors claim what they wait for, sometimes."""
        for group in decision.groups:
            evicts = any(isinstance(effect, EvictWorkload) for effect in group.effects)
            if evicts and group.wanted is not None and self.random.random() < 0.7:
                self.view.claim(group.workload_id, group.wanted.cluster_queue, group.wanted.usage)


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_remembering_changes_nothing(seed: int, *, fair: bool, inline: bool) -> None:
    world, _ = world_of(seed, fair=fair)
    queues = list(world.queues)
    knows = Days(view_of_world(world), queues, seed, inline=inline)
    forgets = Days(forgetful(view_of_world(world)), queues, seed, inline=inline)
    for with_memory, without in zip(knows.live(), forgets.live(), strict=True):
        assert with_memory == without
