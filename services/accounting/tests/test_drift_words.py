"""That a price is out of step is said when it becomes so, once, whatever dies meanwhile."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from muster_accounting.drift_words import SETTLED_MS, messages, news
from muster_accounting.metrics import AccountingMetrics
from muster_accounting.settings import AccountingSettings, load_token_terms
from muster_accounting.store import UsageStore
from muster_contracts import codec, subjects
from muster_contracts.streams import EVENTS
from muster_contracts.subjects import Service
from muster_contracts.tokens import TokenPriceDrifted, TokenReport, TokensReported
from muster_domain.errors import Fenced
from muster_domain.tokens import DriftStatus, TokenUse
from muster_rating.windows import Window
from muster_runtime.bus import Bus
from muster_testing.connection import until

from .homes import Home
from .log import Job, Log, clock
from .test_meter import NOW_MS, bus, metering, outgoing
from .test_metrics import report

__all__ = ["bus"]
MONTH = Window(clock(0), clock(720))
MODEL = ("ns-a", "llama")
UNDER, OVER = DriftStatus.UNDER_RECOVERED, DriftStatus.OVER_RECOVERED
TERMS = load_token_terms(
    AccountingSettings(
        token_prices=(  # noqa: S106 - prices of tokens
            "model_list: [{model_name: llama, litellm_params: {model: hosted_vllm/llama,"
            " input_cost_per_token: 1e-6, output_cost_per_token: 1e-6}}]"
        )
    )
)
DRIFTED = subjects.facts_of(Service.ACCOUNTING, "token_price_drifted")


def found(status: DriftStatus) -> TokenReport:
    return report(status, -804, "3.978947")


def word(status: DriftStatus, number: int) -> TokenPriceDrifted:
    (said,) = news(found(UNDER), {}, MONTH, clock(100))
    return replace(said, status=status, number=number)


@pytest.mark.parametrize(
    ("last", "now", "said"),
    [
        (None, DriftStatus.OK, None),
        (None, UNDER, 1),
        (UNDER, UNDER, None),
        (UNDER, OVER, 8),
        (UNDER, DriftStatus.OK, 8),
        (DriftStatus.OK, OVER, 8),
        (UNDER, DriftStatus.NO_TOKENS, None),
        (None, DriftStatus.UNPRICED, None),
        (None, DriftStatus.NO_IRON, None),
    ],
)
def test_only_a_change_is_said(
    last: DriftStatus | None, now: DriftStatus, said: int | None
) -> None:
    known = {} if last is None else {MODEL: word(last, 7)}
    new = news(found(now), known, MONTH, clock(100))
    assert [(one.status, one.number) for one in new] == ([] if said is None else [(now, said)])


def test_a_month_that_has_just_begun_is_not_judged() -> None:
    assert news(found(UNDER), {}, MONTH, MONTH.start_ms + SETTLED_MS - 1) == []
    (said,) = news(found(UNDER), {}, MONTH, MONTH.start_ms + SETTLED_MS)
    assert (said.suggested_output, said.drift_permille) == ("3.978947", -804)


async def test_words_are_kept_one_for_each_model_and_by_the_owner_alone(home: Home) -> None:
    store = UsageStore(home.url)
    try:
        await store.prepare()
        await store.claim(2, 0)
        first, second = word(UNDER, 1), word(OVER, 2)
        await store.keep_drift_words(2, [first], said=False)
        await store.keep_drift_words(2, [first], said=True)
        await store.keep_drift_words(2, [second], said=False)
        assert await store.drift_words() == {second: False}
        with pytest.raises(Fenced):
            await store.keep_drift_words(1, [first], said=True)
    finally:
        await store.close()


async def said_on(bus: Bus) -> list[TokenPriceDrifted]:
    log = await bus.read_to_end(EVENTS.name, DRIFTED)
    return [codec.decode(TokenPriceDrifted, received.body) for received in log]


@pytest.mark.servers
async def test_it_stands_in_the_log_once_and_what_a_crash_kept_back_is_said(
    bus: Bus, home: Home
) -> None:
    kept_back = replace(word(OVER, 4), model="other")
    store = UsageStore(home.url)
    await store.prepare()
    await store.claim(0, 0)
    await store.keep_drift_words(0, [kept_back], said=False)
    await store.close()
    log = Log()
    log.declare_house({"a": 4})
    log.node("n1", 4)
    log.admit(Job(team="a", gpus=2, labels={"muster.dev/model": "llama"}), 9_900)
    use = TokenUse(
        request_id="r-1", at_ms=NOW_MS - 1, model="llama", namespace="ns-a", prompt_tokens=5
    )
    fact = TokensReported(uses=(use,))
    log.say(Service.GATEWAY, fact, subjects.tokens_event("tokens_reported", "ns-a"), NOW_MS)
    await bus.publish([outgoing(received) for received in (*log.objects, *log.messages)])
    async with metering(bus, home, drift_every_s=0.1, terms=TERMS) as meter:

        def shown() -> bool:
            text = generate_latest(meter.chassis_metrics.registry).decode()
            return 'muster_token_price_drifted{model="llama"' in text

        await until(shown)
    async with metering(bus, home, "two", drift_every_s=0.1, terms=TERMS) as meter:
        await until(shown)
    said = await said_on(bus)
    assert said[0] == kept_back
    (mine,) = said[1:]
    assert (mine.model, mine.number, mine.status) == ("llama", 1, UNDER)
    assert mine.suggested_input != ""


def test_the_alert_reads_what_was_said_last() -> None:
    registry = CollectorRegistry()
    metrics = AccountingMetrics(registry)
    metrics.show_drift(found(UNDER), [word(UNDER, 1)])
    text = generate_latest(registry).decode()
    assert 'muster_token_price_drifted{model="llama",namespace="ns-a",status="under_recov' in text
    metrics.show_drift(found(UNDER), [word(DriftStatus.OK, 2)])
    assert "muster_token_price_drifted{" not in generate_latest(registry).decode()


def test_a_word_said_again_is_the_same_message() -> None:
    first, again, other = messages([word(UNDER, 1), word(UNDER, 1), word(UNDER, 2)])
    assert first == again
    assert first.headers["ce-id"] != other.headers["ce-id"]
