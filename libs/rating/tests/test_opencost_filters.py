"""OpenCost's filter language."""

import pytest

from muster_domain.errors import InvalidValue
from muster_rating.opencost.allocations import Properties
from muster_rating.opencost.filters import read_filter

WEB = Properties(
    namespace="front",
    node="n1",
    controller_kind="deployment",
    controller="web",
    pod="web",
    team="shop",
    labels={"app": "web", "finops.io/team": "shop"},
    annotations={"owner": "anna"},
)
BARE = Properties(namespace="back", node="n2", pod="one")


@pytest.mark.parametrize(
    ("text", "web", "bare"),
    [
        ("", True, True),
        ('namespace:"front"', True, False),
        ('namespace:"front","back"', True, True),
        ('namespace!:"front"', False, True),
        ('namespace!:"front","back"', False, False),
        ('namespace~:"ron"', True, False),
        ('namespace!~:"ron"', False, True),
        ('namespace<~:"fr"', True, False),
        ('namespace!<~:"fr"', False, True),
        ('namespace~>:"ck"', False, True),
        ('namespace!~>:"ck"', True, False),
        ('label[app]:"web"', True, False),
        ('label:app:"web"', True, False),
        ('label[finops_io_team]:"shop"', True, False),
        ('label:finops.io/team:"shop"', True, False),
        ('label:"app"', True, False),
        ('annotation[owner]:"anna"', True, False),
        ('label[app]:"__unallocated__"', False, True),
        ('controllerKind:"deployment" + controllerName:"web"', True, False),
        ('controllerName:""', False, True),
        ('namespace:"front" + node:"n2"', False, False),
        ('namespace:"front" | node:"n2"', True, True),
        ('(namespace:"front" | node:"n2") + team:"shop"', True, False),
        ('  namespace : "front"  ', True, False),
        ('((namespace:"front"))', True, False),
    ],
)
def test_a_filter_lets_through(text: str, web: bool, bare: bool) -> None:  # noqa: FBT001 - a table
    keep = read_filter(text)

    assert (keep(WEB), keep(BARE)) == (web, bare)


@pytest.mark.parametrize(
    "text",
    [
        "()",
        'namespace.:"x"',
        'namespace:"x")',
        '(namespace:"x"',
        'namespace:"a" | node:"b" + pod:"c"',
        'colour:"red"',
        'namespace:"a",',
        "namespace:a",
        'namespace[key]:"a"',
        'namespace:"a" node:"b"',
        '+ namespace:"a"',
        'namespace:"a',
    ],
)
def test_no_other_text_is_a_filter(text: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        read_filter(text)

    assert refused.value.field == "filter"
