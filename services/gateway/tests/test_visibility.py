"""What a caller who is held to namespaces is not told about a floor that all share."""

from muster_contracts.fit import DomainFit, FitPage
from muster_gateway.access import Caller, Role
from muster_gateway.visibility import SOMEBODY_ELSE, fit_for

ROW = DomainFit(
    topology="", level="", path=(), nodes=1, ready=1, allocatable_milli={}, free_milli={}, fits=(),
    sitting=("vision/train", "nlp/eval"), sitting_total=2,
)  # fmt: skip
PAGE = FitPage(ways=(), domains=(ROW,), total=1)


def test_who_sits_in_a_domain_is_named_to_those_who_see_the_namespace() -> None:
    held = Caller(name="anna", role=Role.VIEWER, namespaces=frozenset({"vision"}))
    assert fit_for(held, PAGE).domains[0].sitting == ("vision/train", SOMEBODY_ELSE)
    everywhere = Caller(name="ops", role=Role.VIEWER)
    assert fit_for(everywhere, PAGE) == PAGE
