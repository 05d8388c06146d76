"""What a served model used: tokens, counted by whoever serves it."""

from dataclasses import dataclass
from enum import StrEnum

NANOS = 1_000_000_000
"""Nano-units of one unit of a currency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUse:
    """One request to a model, which ended at `at_ms`; `request_id` tells requests apart.

    `namespace` is where the model is served, `team` who asked, `key` the hash of the key that was
    used. `reported_nanos` is what the proxy took it to cost, in nano-units of its currency; None
    where it does not say.
    """

    request_id: str
    at_ms: int
    model: str
    namespace: str
    team: str = ""
    key: str = ""
    user: str = ""
    tags: tuple[str, ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reported_nanos: int | None = None


class TokenPolicy(StrEnum):
    """What token money means for a model.

    The hardware of a model that runs on metered nodes is paid for already, so there its token money
    is INFORMATIONAL and in no sum; elsewhere it is ADDITIVE.
    """

    INFORMATIONAL = "informational"
    ADDITIVE = "additive"


class DriftStatus(StrEnum):
    """How a model's token money stands to the cost of the hardware that serves it.

    NO_TOKENS: hardware without requests. NO_IRON: requests to a model said to run here, where no
    hardware carries its name. EXTERNAL: it runs elsewhere. UNPRICED: its tokens have no price.
    """

    OK = "ok"
    UNDER_RECOVERED = "under_recovered"
    OVER_RECOVERED = "over_recovered"
    NO_TOKENS = "no_tokens"
    NO_IRON = "no_iron"
    EXTERNAL = "external"
    UNPRICED = "unpriced"
