"""Token use: the fact, and what accounting answers about it. Money is micro-units."""

from dataclasses import dataclass

from muster_domain.tokens import DriftStatus, TokenPolicy, TokenUse


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensReported:
    """gateway: requests to models were served; the same request again is the same use."""

    uses: tuple[TokenUse, ...]
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensQuestion:
    """Token use in `[start_ms, end_ms)`. Empty `namespaces` sees all, others only theirs.

    `by` is one or several of team, namespace, model, key, user and tag, with commas between. With
    a `step_ms` there is a set for each stretch of so long, else one.
    """

    by: str
    start_ms: int
    end_ms: int
    namespaces: tuple[str, ...] = ()
    step_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLine:
    """One row. `cost_micros` is None where no token of it has a price.

    `informational_micros` is the part of the cost that hardware has been charged for already;
    only the rest, `additive_micros`, may be added to the cost of hardware. `reported_micros` is
    what the proxy said. A request with several tags counts for each.
    """

    key: tuple[str, ...]
    requests: int
    prompt_tokens: int
    completion_tokens: int
    cost_micros: int | None
    informational_micros: int
    additive_micros: int
    reported_micros: int
    unpriced_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSet:
    """The rows of a stretch of time, sorted, and their sum, which counts each request once."""

    start_ms: int
    end_ms: int
    lines: tuple[TokenLine, ...]
    total: TokenLine


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDrift:
    """A model's token money beside the cost of the hardware that serves it in a namespace.

    `per_million_micros` is what a million of its tokens really cost; `suggested_input` and
    `suggested_output` are decimal texts, prices per million tokens that would just recover it, in
    the ratio of the present ones. `drift_permille` is (token - iron) / iron.
    """

    namespace: str
    model: str
    policy: TokenPolicy
    status: DriftStatus
    iron_micros: int
    token_micros: int
    prompt_tokens: int
    completion_tokens: int
    drift_permille: int | None = None
    per_million_micros: int | None = None
    suggested_input: str = ""
    suggested_output: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenReport:
    """Token use and what it comes to. `unpriced` names the models that have no price."""

    by: str
    currency: str
    sets: tuple[TokenSet, ...]
    models: tuple[ModelDrift, ...] = ()
    unpriced: tuple[str, ...] = ()
    provisional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPriceDrifted:
    """accounting: since `from_ms`, when a month began, a price is out of step, or in step again.

    Said when `status` becomes another, `number` counting the words about one model. The suggested
    prices would just recover the hardware; they are decimal texts per million tokens, as in
    `ModelDrift`.
    """

    namespace: str
    model: str
    number: int
    status: DriftStatus
    at_ms: int
    from_ms: int
    currency: str
    iron_micros: int
    token_micros: int
    drift_permille: int
    suggested_input: str = ""
    suggested_output: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensTaken:
    """The API's word that reported rows are in the log; a repeated one is there once."""

    uses: int
    messages: int
