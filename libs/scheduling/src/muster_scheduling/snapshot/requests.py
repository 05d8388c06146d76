"""What a pod's requests come to for quota: resources left out, and resources made of others (R-12).

Seats are counted by the raw requests; only quota sees these.
"""

from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from muster_domain.policy import Policy, Transformation, TransformationStrategy
from muster_domain.quantity import Resources


def charged_requests(requests: Resources, policy: Policy) -> dict[str, int]:
    """Milli-units of one pod that quota is charged; what is finer than a thousandth rounds up."""
    kept = {
        name: amount
        for name, amount in requests.items()
        if not any(name.startswith(prefix) for prefix in policy.exclude_prefixes)
    }
    if not policy.transformations:
        return kept
    made: dict[str, Fraction] = {}
    retained = dict(kept)
    for transformation in policy.transformations:
        if transformation.source not in kept:
            continue
        if transformation.strategy is TransformationStrategy.REPLACE:
            retained.pop(transformation.source, None)
        for name, amount in _outputs(transformation, kept).items():
            made[name] = made.get(name, Fraction(0)) + amount
    for name, amount in made.items():
        retained[name] = retained.get(name, 0) + max(0, ceil(amount))
    return retained


def _outputs(transformation: Transformation, kept: Mapping[str, int]) -> dict[str, Fraction]:
    amount = Fraction(kept[transformation.source])
    if transformation.multiply_by in kept:
        amount *= Fraction(kept[transformation.multiply_by], 1000)
    return {
        name: amount * Fraction(factor_milli, 1000)
        for name, factor_milli in transformation.outputs_milli.items()
    }
