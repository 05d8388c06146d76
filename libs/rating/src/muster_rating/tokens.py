"""Token money: what was asked of models, what it comes to, and who would pay for it.

Tokens are summed as integers and priced late, so nothing is rounded before the last line. The money
of a model that runs on metered hardware is shown and never added to that of the hardware.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from muster_domain.errors import InvalidValue
from muster_domain.money import MICROS, nearest, round_rows
from muster_domain.tokens import NANOS, TokenPolicy
from muster_rating.model_prices import ModelPrices
from muster_rating.windows import Window

Served = tuple[str, str]
"""(namespace, model)."""
Key = tuple[str, ...]
TAG = "tag"
DIMENSIONS = ("team", "namespace", "model", "key", "user", TAG)
UNTAGGED = "__untagged__"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSum:
    """Requests that are alike in all that a report can ask for, summed over a window."""

    window: Window
    model: str
    namespace: str
    team: str
    key: str
    user: str
    tags: tuple[str, ...]
    requests: int
    prompt_tokens: int
    completion_tokens: int
    reported_nanos: int

    @property
    def served(self) -> Served:
        """Where which model answered."""
        return self.namespace, self.model


@dataclass(slots=True, kw_only=True)
class TokenRow:
    """One row, exact until it is rounded; `cost` leaves out what has no price."""

    key: Key
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: Fraction = Fraction(0)
    informational: Fraction = Fraction(0)
    reported: Fraction = Fraction(0)
    unpriced_tokens: int = 0
    priced: bool = False
    cost_micros: int = 0

    @property
    def informational_micros(self) -> int:
        """The part that hardware was charged for already, never above the cost."""
        return min(nearest(self.informational), self.cost_micros)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTable:
    """Rows by key, sorted, and the sum, in which each request counts once."""

    window: Window
    rows: tuple[TokenRow, ...]
    total: TokenRow


def label_of(model: str) -> str:
    """How a label names a model: without what is before the last slash, which no label may have."""
    return model.rpartition("/")[2]


def read_dimensions(by: str) -> tuple[str, ...]:
    """By what to group. Raises `InvalidValue`."""
    names = tuple(by.split(","))
    for name in names:
        if name not in DIMENSIONS:
            raise InvalidValue(
                f"tokens are not kept by {name!r}",
                field="by",
                fix=f"use {', '.join(DIMENSIONS)}, or several with commas",
            )
    return names


@dataclass(slots=True, kw_only=True)
class TokenRating:
    """Prices, and which models have hardware, by (namespace, label of the model)."""

    prices: ModelPrices
    on_iron: frozenset[tuple[str, str]] = frozenset()
    unpriced: set[str] = field(default_factory=set[str])

    def policy(self, served: Served, at_ms: int) -> TokenPolicy:
        """What a model's token money means in a namespace."""
        price = self.prices.at(served[1], at_ms)
        if price is not None and price.policy is not None:
            return price.policy
        metered = (served[0], label_of(served[1])) in self.on_iron
        return TokenPolicy.INFORMATIONAL if metered else TokenPolicy.ADDITIVE

    def add(self, row: TokenRow, used: TokenSum) -> None:
        """Price a sum, all of whose window has one price, and add it to a row."""
        row.requests += used.requests
        row.prompt_tokens += used.prompt_tokens
        row.completion_tokens += used.completion_tokens
        row.reported += Fraction(used.reported_nanos * MICROS, NANOS)
        at_ms = used.window.start_ms
        price = self.prices.at(used.model, at_ms)
        cost = None
        if price is not None:
            cost = price.cost_micros(used.prompt_tokens, used.completion_tokens)
        if cost is None:
            row.unpriced_tokens += used.prompt_tokens + used.completion_tokens
            self.unpriced.add(used.model)
            return
        row.priced = True
        row.cost += cost
        if self.policy(used.served, at_ms) is TokenPolicy.INFORMATIONAL:
            row.informational += cost


def token_table(
    sums: Iterable[TokenSum], rating: TokenRating, window: Window, dimensions: Sequence[str]
) -> TokenTable:
    """Rows over a window; with the dimension of tags, a request is in one row for each of its tags.

    Rows are rounded so that they sum to the total to the last micro-unit, unless tags make them
    overlap.
    """
    rows: dict[Key, TokenRow] = {}
    total = TokenRow(key=())
    for used in sums:
        rating.add(total, used)
        for key in _keys(used, dimensions):
            rating.add(rows.setdefault(key, TokenRow(key=key)), used)
    ordered = [rows[key] for key in sorted(rows)]
    micros, _ = round_rows([row.cost for row in ordered])
    for row, amount in zip(ordered, micros, strict=True):
        row.cost_micros = amount
    total.cost_micros = nearest(total.cost)
    return TokenTable(window=window, rows=tuple(ordered), total=total)


def _keys(used: TokenSum, dimensions: Sequence[str]) -> list[Key]:
    keys: list[Key] = [()]
    for name in dimensions:
        values = (used.tags or (UNTAGGED,)) if name == TAG else (_value(used, name),)
        keys = [(*key, value) for key in keys for value in values]
    return keys


def _value(used: TokenSum, name: str) -> str:
    known: Mapping[str, str] = {
        "team": used.team,
        "namespace": used.namespace,
        "model": used.model,
        "key": used.key,
        "user": used.user,
    }
    return known[name]
