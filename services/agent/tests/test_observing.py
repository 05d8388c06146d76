"""How busy devices were: what samples come to, and what they never say."""

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_agent.observing import Holder, Sample, Sampler, holders_of, observe
from muster_contracts.observations import BLOCK_MS, MINUTE_MS, MINUTES, DevicesObserved, ObservedUse

from .builders import run_pod

AT_MS = 1_000 * BLOCK_MS
GPU = "nvidia.com/gpu"
MINE, OTHER = ("w1", 1), ("w2", 3)
GAP_MS = 15_000


def sample(at_ms: int, percents: dict[int, int], holders: dict[int, Holder]) -> Sample:
    return Sample(at_ms=AT_MS + at_ms, percents=percents, holders=holders)


def use(holder: Holder, observed: dict[int, int], busy: dict[int, int]) -> ObservedUse:
    return ObservedUse(
        workload_id=holder[0],
        attempt=holder[1],
        resource=GPU,
        observed=tuple(observed.get(minute, 0) for minute in range(MINUTES)),
        busy=tuple(busy.get(minute, 0) for minute in range(MINUTES)),
    )


def told(*samples: Sample) -> list[DevicesObserved]:
    """What is said of samples, and of one in the next block, which ends theirs."""
    sampler = Sampler("n1", GAP_MS)
    later = Sample(at_ms=AT_MS + 5 * BLOCK_MS, percents={}, holders={})
    return [fact for one in (*samples, later) for fact in sampler.take(one)]


def test_a_sample_stands_for_the_time_since_the_one_before() -> None:
    held = {0: MINE, 1: MINE, 2: OTHER}
    facts = told(
        sample(0, {0: 99, 1: 99, 2: 99}, held),
        sample(10_000, {0: 50, 1: 100, 2: 7}, held),
        sample(20_000, {0: 0, 1: 100, 2: 0}, held),
    )
    assert facts == [
        DevicesObserved(
            node="n1",
            from_ms=AT_MS,
            uses=(
                use(MINE, {0: 40_000_000}, {0: 25_000_000}),
                use(OTHER, {0: 20_000_000}, {0: 700_000}),
            ),
        )
    ]


def test_time_is_split_at_minutes_and_blocks() -> None:
    facts = told(
        sample(BLOCK_MS - 4_000, {0: 50}, {0: MINE}),
        sample(BLOCK_MS + 6_000, {0: 50}, {0: MINE}),
    )
    assert [(fact.from_ms - AT_MS, fact.uses) for fact in facts] == [
        (0, (use(MINE, {9: 4_000_000}, {9: 2_000_000}),)),
        (BLOCK_MS, (use(MINE, {0: 6_000_000}, {0: 3_000_000}),)),
    ]


def test_a_block_is_told_once_by_the_first_sample_after_it() -> None:
    sampler = Sampler("n1", GAP_MS)
    assert sampler.take(sample(0, {0: 1}, {0: MINE})) == ()
    assert sampler.take(sample(BLOCK_MS - 1, {0: 1}, {0: MINE})) == ()
    assert sampler.take(sample(BLOCK_MS - 1 + 5_000, {0: 1}, {0: MINE})) != ()
    assert sampler.take(sample(BLOCK_MS + 9_000, {0: 1}, {0: MINE})) == ()


@pytest.mark.parametrize(
    ("why", "second"),
    [
        ("too long ago", sample(GAP_MS + 1, {0: 50}, {0: MINE})),
        ("the clock was put back", sample(-1, {0: 50}, {0: MINE})),
        ("somebody else has it now", sample(5_000, {0: 50}, {0: OTHER})),
        ("nobody has it", sample(5_000, {0: 50}, {})),
        ("the driver does not say", sample(5_000, {}, {0: MINE})),
    ],
)
def test_what_was_not_seen_is_not_told(why: str, second: Sample) -> None:
    facts = told(sample(0, {0: 50}, {0: MINE}), second)
    assert [fact.uses for fact in facts if fact.uses] == [], why


def test_a_gpu_that_attempts_share_is_nobodys() -> None:
    whole = run_pod("w1-1-0", devices={GPU: (0, 1)})
    others = run_pod("w1-1-1", devices={GPU: (2,)})
    sharing = run_pod("w2-1-0", devices={GPU: (1,)})
    part = run_pod("w3-1-0", devices={"nvidia.com/mig-1g.10gb": (3,)})
    assert holders_of([whole, others, part]) == {0: ("w1", 1), 1: ("w1", 1), 2: ("w1", 1)}
    assert holders_of([whole, others, sharing]) == {0: ("w1", 1), 2: ("w1", 1)}


STEPS = st.lists(
    st.tuples(st.integers(1, 2 * GAP_MS), st.integers(0, 100), st.sampled_from([MINE, OTHER])),
    max_size=60,
)


@given(STEPS)
def test_nothing_is_told_beyond_the_time_that_was_seen(
    steps: list[tuple[int, int, Holder]],
) -> None:
    samples, at_ms = [sample(0, {0: 0}, {0: MINE})], 0
    for gap_ms, percent, holder in steps:
        at_ms += gap_ms
        samples.append(sample(at_ms, {0: percent}, {0: holder}))
    uses = [one for fact in told(*samples) for one in fact.uses]
    for one in uses:
        for observed, busy in zip(one.observed, one.busy, strict=True):
            assert 0 <= busy <= observed <= 1000 * MINUTE_MS
    seen = sum(
        after.at_ms - before.at_ms
        for before, after in pairwise(samples)
        if after.at_ms - before.at_ms <= GAP_MS and before.holders == after.holders
    )
    assert sum(sum(one.observed) for one in uses) == 1000 * seen


async def test_the_loop_tells_what_the_driver_says_of_the_pods() -> None:
    clock = iter([AT_MS, AT_MS + 10_000, AT_MS + BLOCK_MS, *[AT_MS + BLOCK_MS] * 1_000])
    facts: list[DevicesObserved] = []
    done = asyncio.Event()

    def tell(fact: DevicesObserved) -> None:
        facts.append(fact)
        done.set()

    loop = observe(
        Sampler("n1", GAP_MS),
        interval_s=0,
        percents=lambda: {0: 40},
        pods=lambda: [replace(run_pod("w1-1-0", devices={GPU: (0,)}), attempt=1)],
        now_ms=lambda: next(clock),
        tell=tell,
    )
    running = asyncio.create_task(loop)
    await asyncio.wait_for(done.wait(), 60)
    running.cancel()
    assert facts[0].uses == (use(MINE, {0: 10_000_000}, {0: 4_000_000}),)
