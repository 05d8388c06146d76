"""What accounting answers about tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from muster_contracts.tokens import ModelDrift, TokenLine, TokenReport, TokenSet, TokensQuestion
from muster_domain.errors import InvalidValue
from muster_domain.money import MICROS, format_decimal, nearest
from muster_rating.dimensions import UNALLOCATED
from muster_rating.drift import Drift, drifts
from muster_rating.model_prices import ModelPrices
from muster_rating.prices import PriceBook
from muster_rating.report import Books, RowKind, cost_table
from muster_rating.tokens import (
    TokenRating,
    TokenRow,
    TokenSum,
    TokenTable,
    read_dimensions,
    token_table,
)
from muster_rating.windows import Window, asked_window

SETS_MAX = 400
PRICE_PLACES = 6
MODEL_LABEL = "muster.dev/model"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTerms:
    """What models cost, and the label with which workloads say what model they serve."""

    prices: ModelPrices
    label: str = MODEL_LABEL


class TokenAnswer:
    """One question, from the sums that it needs to the report. Raises `InvalidValue`."""

    def __init__(self, question: TokensQuestion, terms: TokenTerms, through_ms: int) -> None:
        self._question = question
        self._terms = terms
        self._dimensions = read_dimensions(question.by)
        asked = asked_window(question.start_ms, question.end_ms)
        self._provisional = asked.end_ms > through_ms
        self.window = Window(asked.start_ms, max(asked.start_ms, min(asked.end_ms, through_ms)))
        self._steps = tuple(_steps(asked, question.step_ms))

    @property
    def parts(self) -> tuple[Window, ...]:
        """The windows to sum over, in each of which no price changes, in order."""
        return tuple(
            part
            for step in self._steps
            for part in self._terms.prices.windows(self.window.clip(step.start_ms, step.end_ms))
        )

    def report(self, sums: Sequence[TokenSum], books: Books, prices: PriceBook) -> TokenReport:
        """The report; `sums` are those of all parts."""
        visible = frozenset(self._question.namespaces)
        shown = [used for used in sums if not visible or used.namespace in visible]
        iron = {
            key: cost
            for key, cost in self._iron(books, prices).items()
            if not visible or key[0] in visible
        }
        rating = TokenRating(prices=self._terms.prices, on_iron=frozenset(iron))
        sets = tuple(_set(self._table(step, shown, rating), step) for step in self._steps)
        models = tuple(_drift(found) for found in drifts(shown, iron, rating, self.window))
        return TokenReport(
            by=self._question.by,
            currency=self._terms.prices.currency,
            sets=sets,
            models=models,
            unpriced=tuple(sorted(rating.unpriced)),
            provisional=self._provisional,
        )

    def _table(self, step: Window, sums: Sequence[TokenSum], rating: TokenRating) -> TokenTable:
        inside = [
            used for used in sums if step.overlap_ms(used.window.start_ms, used.window.end_ms)
        ]
        return token_table(inside, rating, step, self._dimensions)

    def _iron(self, books: Books, prices: PriceBook) -> dict[tuple[str, str], Fraction]:
        """The cost of hardware by namespace and label of the model."""
        by = f"namespace,label:{self._terms.label}"
        iron: dict[tuple[str, str], Fraction] = {}
        for row in cost_table(books, prices, self.window, by).rows:
            namespace, _, label = row.key.partition("/")
            if row.kind is RowKind.USAGE and label != UNALLOCATED:
                iron[namespace, label] = row.cost
        return iron


def _steps(window: Window, step_ms: int) -> Iterator[Window]:
    if step_ms <= 0:
        yield window
        return
    if window.length_ms > SETS_MAX * step_ms:
        raise InvalidValue(
            f"more than {SETS_MAX} steps", field="step_ms", fix="take longer steps or less time"
        )
    for start_ms in range(window.start_ms, window.end_ms, step_ms):
        yield Window(start_ms, min(start_ms + step_ms, window.end_ms))


def _set(table: TokenTable, step: Window) -> TokenSet:
    return TokenSet(
        start_ms=step.start_ms,
        end_ms=step.end_ms,
        lines=tuple(_line(row) for row in table.rows),
        total=_line(table.total),
    )


def _line(row: TokenRow) -> TokenLine:
    known = row.priced or not row.unpriced_tokens
    return TokenLine(
        key=row.key,
        requests=row.requests,
        prompt_tokens=row.prompt_tokens,
        completion_tokens=row.completion_tokens,
        cost_micros=row.cost_micros if known else None,
        informational_micros=row.informational_micros,
        additive_micros=row.cost_micros - row.informational_micros,
        reported_micros=nearest(row.reported),
        unpriced_tokens=row.unpriced_tokens,
    )


def _drift(found: Drift) -> ModelDrift:
    return ModelDrift(
        namespace=found.served[0],
        model=found.served[1],
        policy=found.policy,
        status=found.status,
        iron_micros=nearest(found.iron),
        token_micros=nearest(found.token),
        prompt_tokens=found.prompt_tokens,
        completion_tokens=found.completion_tokens,
        drift_permille=None if found.drift is None else nearest(found.drift * 1000),
        per_million_micros=None if found.per_million is None else nearest(found.per_million),
        suggested_input=_price(found.suggested_input),
        suggested_output=_price(found.suggested_output),
    )


def _price(micros: Fraction | None) -> str:
    return "" if micros is None else format_decimal(Fraction(micros, MICROS), PRICE_PLACES)
