"""What a million tokens of a model cost, by time, and how people write it down.

Prices are read from the configuration of a LiteLLM proxy: of each entry of `model_list` the
`model_name`, and `input_cost_per_token` and `output_cost_per_token` from `litellm_params` or
`model_info`. Two more fields of `model_info` are ours: `token_policy` (informational or additive,
else by whether the model runs on metered hardware) and `effective_from`.

A model without a price is unpriced; a price of zero is a price.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import cast

from muster_domain.errors import InvalidValue
from muster_domain.tokens import TokenPolicy
from muster_rating.dates import read_instant_ms
from muster_rating.prices import ALWAYS_MS
from muster_rating.windows import Window

MILLION = 1_000_000
PER_TOKEN_MAX = Fraction(1, 100)
"""No token costs a cent: whoever writes that means the price of a million."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """Units of the currency for a million tokens, `None` where nothing is said."""

    model: str
    input_per_million: Fraction | None
    output_per_million: Fraction | None
    policy: TokenPolicy | None = None
    effective_from_ms: int = ALWAYS_MS

    def cost_micros(self, prompt_tokens: int, completion_tokens: int) -> Fraction | None:
        """The exact cost in micro-units; None where tokens of a kind have no price."""
        cost = Fraction(0)
        for tokens, price in (
            (prompt_tokens, self.input_per_million),
            (completion_tokens, self.output_per_million),
        ):
            if tokens and price is None:
                return None
            cost += tokens * (price or 0)
        return cost


@dataclass(frozen=True)
class ModelPrices:
    """All models' prices in one currency. Raises `InvalidValue` where two begin together."""

    currency: str
    prices: tuple[ModelPrice, ...] = field(default=())

    def __post_init__(self) -> None:
        for model, of_model in self._by_model.items():
            for before, after in pairwise(of_model):
                if before.effective_from_ms == after.effective_from_ms and before != after:
                    raise InvalidValue(
                        f"the model {model!r} has two prices at the same time",
                        field=f"model_list.{model}",
                        fix="give its deployments one price, or each its own effective_from",
                    )

    def windows(self, window: Window) -> tuple[Window, ...]:
        """The window cut wherever the price of some model changes, without gaps, in order."""
        inside = sorted(
            {
                price.effective_from_ms
                for price in self.prices
                if window.start_ms < price.effective_from_ms < window.end_ms
            }
        )
        edges = [window.start_ms, *inside, window.end_ms]
        return tuple(Window(start, end) for start, end in pairwise(edges) if start < end)

    def at(self, model: str, at_ms: int) -> ModelPrice | None:
        """The price of a model that holds at a moment."""
        prices = self._by_model.get(model, ())
        index = bisect_right([price.effective_from_ms for price in prices], at_ms)
        return prices[index - 1] if index else None

    @cached_property
    def _by_model(self) -> dict[str, tuple[ModelPrice, ...]]:
        groups: dict[str, list[ModelPrice]] = {}
        for price in self.prices:
            groups.setdefault(price.model, []).append(price)
        return {
            model: tuple(sorted(groups[model], key=lambda price: price.effective_from_ms))
            for model in sorted(groups)
        }


def read_litellm_config(document: object, *, currency: str) -> ModelPrices:
    """The prices in a proxy's configuration, as plain data whose scalars are text.

    Raises `InvalidValue` naming the field.
    """
    entries = _mapping(document, "").get("model_list", ())
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise InvalidValue("model_list is not a list", field="model_list")
    rows = cast("Sequence[object]", entries)
    return ModelPrices(
        currency, tuple(_read_entry(row, f"model_list[{n}]") for n, row in enumerate(rows))
    )


def _read_entry(written: object, place: str) -> ModelPrice:
    entry = _mapping(written, place)
    model = entry.get("model_name")
    if not isinstance(model, str) or not model:
        raise InvalidValue("there is no model_name", field=f"{place}.model_name")
    info = _mapping(entry.get("model_info") or {}, f"{place}.model_info")
    params = _mapping(entry.get("litellm_params") or {}, f"{place}.litellm_params")
    policy = info.get("token_policy")
    if policy is not None and policy not in list(TokenPolicy):
        raise InvalidValue(
            f"{policy!r} is no token policy",
            field=f"{place}.model_info.token_policy",
            fix=f"write {' or '.join(TokenPolicy)}",
        )
    since = info.get("effective_from")
    place_since = f"{place}.model_info.effective_from"
    return ModelPrice(
        model=model,
        input_per_million=_per_million("input_cost_per_token", (params, info), place),
        output_per_million=_per_million("output_cost_per_token", (params, info), place),
        policy=None if policy is None else TokenPolicy(str(policy)),
        effective_from_ms=ALWAYS_MS if since is None else read_instant_ms(str(since), place_since),
    )


def _per_million(name: str, places: Sequence[Mapping[str, object]], place: str) -> Fraction | None:
    for fields in places:
        if fields.get(name) is not None:
            return read_per_token(str(fields[name]), f"{place}.{name}") * MILLION
    return None


def read_per_token(text: str, field: str) -> Fraction:
    """A price of one token, in decimals or with an exponent. Raises `InvalidValue`."""
    amount = read_decimal(text, field)
    if amount < 0:
        raise InvalidValue(f"{text!r} is below zero", field=field, fix="write 0 for free")
    if amount >= PER_TOKEN_MAX:
        raise InvalidValue(
            f"{text!r} for each single token is more than a cent",
            field=field,
            fix="write the price of one token, not that of a million",
        )
    return amount


def read_decimal(text: str, field: str) -> Fraction:
    """A decimal number, exactly as it was written. Raises `InvalidValue`."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite():
        raise InvalidValue(f"{text!r} is not a number", field=field)
    return Fraction(amount)


def _mapping(value: object, place: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidValue("not a mapping", field=place or "model_list")
    return {str(name): entry for name, entry in cast("Mapping[object, object]", value).items()}
