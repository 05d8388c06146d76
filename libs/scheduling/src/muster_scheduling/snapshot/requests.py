"""What a pod's requests come to for quota: resources left out, and resources made of others (R-12).

Seats are counted by the raw requests; only quota sees these.
"""

from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from muster_domain.policy import Policy, Transformation, TransformationStrategy
from muster_domain.quantity import Resources
from muster_scheduling.quota import whole


def charged_requests(requests: Resources, policy: Policy) -> dict[str, int]:
    """Milli-units of one pod that quota is charged, rounded up to what Kueue counts in (R-2, R-13).

    That is thousandths of cpu, and whole units of everything else.
    """
    kept = {
        name: amount
        for name, amount in requests.items()
        if not any(name.startswith(prefix) for prefix in policy.exclude_prefixes)
    }
    if not policy.transformations:
        return {name: whole(name, amount) for name, amount in kept.items()}
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
    return {name: whole(name, amount) for name, amount in retained.items()}


def _outputs(transformation: Transformation, kept: Mapping[str, int]) -> dict[str, Fraction]:
    amount = Fraction(kept[transformation.source])
    if transformation.multiply_by in kept:
        amount *= Fraction(kept[transformation.multiply_by], 1000)
    return {
        name: amount * Fraction(factor_milli, 1000)
        for name, factor_milli in transformation.outputs_milli.items()
    }
