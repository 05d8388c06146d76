"""OpenCost's filter language."""

import pytest

from muster_domain.errors import InvalidValue
from muster_rating.opencost.allocations import Properties
from muster_rating.opencost.filters import ALLOCATION_FIELDS, DEPTH_MAX, read_filter

WEB = Properties(
    namespace="front",
    node="n1",
    controller_kind="deployment",
    controller="web",
    pod="web",
    team="shop",
    labels={"app": "web", "finops.io/team": "shop", "environment": "prod"},
    annotations={"owner": "anna", "environment": "of the annotation"},
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
        ('NAMESPACE:"front"', True, False),
        ('namespace\t:\n"front"', True, False),
        ('namespace!:"front" + pod:"one"', False, True),
        ('namespace!~:"ron","xyz"', False, True),
        ('namespace~:"ron","ac"', True, True),
        ('Label[app]:"web"', True, False),
        ('label!:"app"', False, True),
        ('label<~:"finops"', True, False),
        ('label:"finops_io_team"', True, False),
        ('label:"finops.io/team"', True, False),
        ('label[app]!:"web"', False, True),
        ('label:app!:"web"', False, True),
        ('label:app<~:"w","x"', True, False),
        ('label[app]:""', False, True),
        ('owner:"anna"', True, False),
        ('environment:"prod"', True, False),
        ('product:"__unallocated__"', True, True),
        ('namespace:"a \\ b + c | d"', False, False),
        ('(namespace:"front" + (pod:"web" | pod:"one")) | (node:"n2")', True, True),
        ('((namespace:"front"))', True, False),
    ],
)
def test_a_filter_lets_through(text: str, web: bool, bare: bool) -> None:  # noqa: FBT001 - a table
    keep = read_filter(text, ALLOCATION_FIELDS)

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
        "namespace:'a'",
        'namespace:"a\\"b"',
        'namespace:"a" || pod:"b"',
        'label[]:"a"',
        'label[a b]:"c"',
        'label[a:"b"',
        'label!:app:"web"',
        "label:app",
        'labels:"app"',
        'container:"main"',
        'namespace ~ : "a"',
        'namespace=:"a"',
        'not namespace:"a"',
        "+",
        '(namespace:"a") (pod:"b")',
        "(" * 51 + 'namespace:"a"' + ")" * 51,
    ],
)
def test_no_other_text_is_a_filter(text: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        read_filter(text, ALLOCATION_FIELDS)

    assert refused.value.field == "filter"


def test_the_longest_filter_is_read_at_once() -> None:
    """One after another and one inside another, as long as a parameter may be."""
    deep = "".join(f'(pod:"a"{"+|"[level % 2]}' for level in range(DEPTH_MAX))
    deep += 'pod:"a"' + ")" * DEPTH_MAX
    wide = "|".join(f'namespace:"n{number}"' for number in range(200))
    values = "namespace:" + ",".join(f'"n{number}"' for number in range(500))

    for text in (deep, wide, values):
        assert not read_filter(text, ALLOCATION_FIELDS)(WEB)
