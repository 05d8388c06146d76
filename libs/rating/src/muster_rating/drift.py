"""Whether the price of a model's tokens recovers what its hardware costs.

Joined on (namespace, model): the hardware of a model is that of the workloads which carry its name
in a label, in the namespace where it is served; nothing is guessed from shares of tokens.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from muster_domain.tokens import DriftStatus, TokenPolicy
from muster_rating.model_prices import MILLION, ModelPrice
from muster_rating.tokens import Served, TokenRating, TokenRow, TokenSum, label_of
from muster_rating.windows import Window

TOLERANCE_PERMILLE = 50
"""How far token money may be from the cost of hardware without being out of step."""
PERMILLE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Token money beside iron; money is exact, in micro-units.

    `drift` is (token - iron) / iron. `per_million` is what a million tokens really cost, and the
    suggested prices would recover the iron exactly, in the ratio that the present prices have.
    """

    served: Served
    policy: TokenPolicy
    status: DriftStatus
    iron: Fraction
    token: Fraction
    prompt_tokens: int
    completion_tokens: int
    drift: Fraction | None = None
    per_million: Fraction | None = None
    suggested_input: Fraction | None = None
    suggested_output: Fraction | None = None


def drifts(
    sums: Iterable[TokenSum],
    iron: Mapping[tuple[str, str], Fraction],
    rating: TokenRating,
    window: Window,
) -> list[Drift]:
    """Every model that was asked or has hardware, by namespace and name.

    `iron` is the cost of hardware by (namespace, label of the model).
    """
    used: dict[Served, TokenRow] = {}
    for part in sums:
        rating.add(used.setdefault(part.served, TokenRow(key=part.served)), part)
    named = {(namespace, label_of(model)) for namespace, model in used}
    idle = {key: TokenRow(key=key) for key in iron if key not in named and iron[key]}
    found = {**used, **idle}
    last_ms = max(window.start_ms, window.end_ms - 1)
    return [
        _drift(
            served,
            found[served],
            iron.get((served[0], label_of(served[1])), Fraction(0)),
            rating.policy(served, last_ms),
            rating.prices.at(served[1], last_ms),
        )
        for served in sorted(found)
    ]


def _drift(
    served: Served,
    row: TokenRow,
    iron: Fraction,
    policy: TokenPolicy,
    price: ModelPrice | None,
) -> Drift:
    tokens = row.prompt_tokens + row.completion_tokens
    drift = Fraction(row.cost - iron, iron) if iron else None
    suggested = (None, None)
    if iron and tokens:
        suggested = _suggested(row, iron, price)
    return Drift(
        served=served,
        policy=policy,
        status=_status(row, policy, drift),
        iron=iron,
        token=row.cost,
        prompt_tokens=row.prompt_tokens,
        completion_tokens=row.completion_tokens,
        drift=drift,
        per_million=Fraction(iron * MILLION, tokens) if iron and tokens else None,
        suggested_input=suggested[0],
        suggested_output=suggested[1],
    )


def _status(row: TokenRow, policy: TokenPolicy, drift: Fraction | None) -> DriftStatus:
    if drift is None:
        outside = policy is TokenPolicy.ADDITIVE
        return DriftStatus.EXTERNAL if outside else DriftStatus.NO_IRON
    if not row.prompt_tokens + row.completion_tokens:
        return DriftStatus.NO_TOKENS
    if row.unpriced_tokens:
        return DriftStatus.UNPRICED
    if abs(drift) * PERMILLE <= TOLERANCE_PERMILLE:
        return DriftStatus.OK
    return DriftStatus.UNDER_RECOVERED if drift < 0 else DriftStatus.OVER_RECOVERED


def _suggested(
    row: TokenRow, iron: Fraction, price: ModelPrice | None
) -> tuple[Fraction, Fraction]:
    """Prices per million tokens, input and output, in micro-units."""
    ratio = Fraction(1)
    if price is not None and price.input_per_million and price.output_per_million:
        ratio = Fraction(price.input_per_million, price.output_per_million)
    of_output = Fraction(iron * MILLION, ratio * row.prompt_tokens + row.completion_tokens)
    return ratio * of_output, of_output
