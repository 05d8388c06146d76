"""What accounting is told by its environment."""

from pathlib import Path
from typing import cast

from pydantic import Field
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from muster_domain.errors import InvalidValue
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
    log_lag_max: int = Field(
        default=20_000, description="Facts that may be unread before the service is not ready"
    )


def load_prices(settings: AccountingSettings) -> PriceBook:
    """The price list that the settings name; an empty one if they name none.

    Scalars stay text on the way, so an amount is what was written. Raises `InvalidValue`.
    """
    if settings.prices and settings.prices_file:
        raise InvalidValue(
            "there are two price lists", field="prices", fix="set prices or prices_file, not both"
        )
    text, source = settings.prices, "prices"
    if settings.prices_file:
        source = settings.prices_file
        try:
            text = Path(source).read_text(encoding="utf-8")
        except OSError as error:
            raise InvalidValue(f"cannot read {source}: {error}", field="prices_file") from error
    try:
        document = cast("object", YAML(typ="base", pure=True).load(text))
    except YAMLError as error:
        raise InvalidValue(f"{source} is not YAML: {error}", field="prices") from error
    return read_price_list(document or {}, default_currency=settings.currency)
