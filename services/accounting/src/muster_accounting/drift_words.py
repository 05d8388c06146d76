"""When a model's price falls out of step with its hardware, or into step again, it is said once.

What is said is kept with the books in one transaction and published from there, so that a crash
repeats a word under its own id and loses none.
"""

from collections.abc import Iterable, Mapping

from muster_contracts import codec, envelope, subjects
from muster_contracts.subjects import Service
from muster_contracts.tokens import ModelDrift, TokenPriceDrifted, TokenReport
from muster_domain.tokens import DriftStatus
from muster_rating.prices import HOUR_MS
from muster_rating.windows import Window
from muster_runtime.publisher import Outgoing

Served = tuple[str, str]
"""(namespace, model)."""
SETTLED_MS = 6 * HOUR_MS
"""So much of a month is not judged yet: a few requests say little about its price."""
_JUDGED = (DriftStatus.OK, DriftStatus.UNDER_RECOVERED, DriftStatus.OVER_RECOVERED)
_NAME = codec.EVENT_NAMES[TokenPriceDrifted]


def news(
    report: TokenReport, known: Mapping[Served, TokenPriceDrifted], month: Window, now_ms: int
) -> list[TokenPriceDrifted]:
    """What is to be said: of each model whose status is another than the one that was said last.

    Of a model of which nothing was said its price is taken to be in step.
    """
    if now_ms < month.start_ms + SETTLED_MS:
        return []
    found: list[TokenPriceDrifted] = []
    for model in report.models:
        last = known.get((model.namespace, model.model))
        status = DriftStatus.OK if last is None else last.status
        if model.status in _JUDGED and model.status is not status:
            number = 1 if last is None else last.number + 1
            found.append(_word(model, number, report.currency, month, now_ms))
    return found


def _word(
    model: ModelDrift, number: int, currency: str, month: Window, now_ms: int
) -> TokenPriceDrifted:
    return TokenPriceDrifted(
        namespace=model.namespace,
        model=model.model,
        number=number,
        status=model.status,
        at_ms=now_ms,
        from_ms=month.start_ms,
        currency=currency,
        iron_micros=model.iron_micros,
        token_micros=model.token_micros,
        drift_permille=model.drift_permille or 0,
        suggested_input=model.suggested_input,
        suggested_output=model.suggested_output,
    )


def messages(words: Iterable[TokenPriceDrifted]) -> list[Outgoing]:
    """The words as they go onto the log; said again they have the same ids."""
    return [
        Outgoing(
            subject=subjects.drift_event(_NAME, word.namespace),
            body=codec.encode(word),
            headers=envelope.to_headers(
                envelope.Envelope(
                    id=envelope.derived_id(
                        Service.ACCOUNTING, _NAME, word.namespace, word.model, word.number
                    ),
                    source="/muster/accounting",
                    type=envelope.event_type(Service.ACCOUNTING, _NAME),
                    time_ms=word.at_ms,
                )
            ),
        )
        for word in words
    ]
