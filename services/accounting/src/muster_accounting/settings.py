"""What accounting is told by its environment."""

from pathlib import Path
from typing import cast

from pydantic import Field
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from muster_accounting.token_answers import MODEL_LABEL, TokenTerms
from muster_domain.errors import InvalidValue
from muster_rating.model_prices import read_litellm_config
from muster_rating.price_lists import read_price_list
from muster_rating.prices import PriceBook
from muster_runtime.settings import ServiceSettings


class AccountingSettings(ServiceSettings):
    """Replicas share one store; the one that holds the lease writes it."""

    accounting_url: str = Field(
        default="sqlite+aiosqlite:///muster-accounting.db",
        description="SQLAlchemy address of the store of usage",
    )
    currency: str = Field(default="EUR", description="Currency of a price list that names none")
    prices: str = Field(default="", description="The price list itself, YAML or JSON")
    prices_file: str = Field(default="", description="The file of the price list, YAML or JSON")
    token_prices: str = Field(
        default="", description="The configuration of a LiteLLM proxy, YAML, for its prices"
    )
    token_prices_file: str = Field(default="", description="The file of that configuration")
    model_label: str = Field(
        default=MODEL_LABEL, description="The workload's label that names the model it serves"
    )
    cost_labels: str = Field(
        default="",
        description="Labels of workloads, with commas, that the gauges of allocations carry",
    )
    months_of: str = Field(
        default="UTC", description="Time zones, with commas, whose months are summed beforehand"
    )
    log_lag_max: int = Field(
        default=20_000, description="Facts that may be unread before the service is not ready"
    )


def load_prices(settings: AccountingSettings) -> PriceBook:
    """The price list that the settings name; an empty one if they name none.

    Scalars stay text on the way, so an amount is what was written. Raises `InvalidValue`.
    """
    document = _document(settings.prices, settings.prices_file, "prices")
    return read_price_list(document or {}, default_currency=settings.currency)


def load_token_terms(settings: AccountingSettings) -> TokenTerms:
    """The prices of models that the settings name, if they name any. Raises `InvalidValue`."""
    document = _document(settings.token_prices, settings.token_prices_file, "token_prices")
    prices = read_litellm_config(document or {}, currency=settings.currency)
    return TokenTerms(prices=prices, label=settings.model_label)


def _document(text: str, file: str, name: str) -> object:
    """YAML from the environment or a file, its scalars as text. Raises `InvalidValue`."""
    if text and file:
        raise InvalidValue(
            "there are two price lists", field=name, fix=f"set {name} or {name}_file, not both"
        )
    source = file or name
    if file:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except OSError as error:
            raise InvalidValue(f"cannot read {file}: {error}", field=f"{name}_file") from error
    try:
        return cast("object", YAML(typ="base", pure=True).load(text))
    except YAMLError as error:
        raise InvalidValue(f"{source} is not YAML: {error}", field=name) from error
