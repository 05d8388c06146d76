import pytest

from muster_domain.queue_tree import tree_root


@pytest.mark.parametrize(
    ("cohort", "parents", "root"),
    [
        ("", {}, "cq:a"),
        ("gpu", {}, "gpu"),
        ("gpu", {"gpu": ""}, "gpu"),
        ("gpu", {"gpu": "all", "all": "site"}, "site"),
        ("gpu", {"gpu": "gpu"}, "gpu"),
        ("tail", {"tail": "y", "y": "x", "x": "y"}, "x"),
        ("y", {"tail": "y", "y": "x", "x": "y"}, "x"),
    ],
)
def test_root_is_the_topmost_cohort(cohort: str, parents: dict[str, str], root: str) -> None:
    assert tree_root("a", cohort, parents) == root
