"""What a partition keeps is said in bounded facts, and they make the same again."""

from hypothesis import given
from hypothesis import strategies as st

from muster_contracts import codec
from muster_contracts.books import PART_BYTES_MAX, BooksKept, Told, books_kept, note, told_otherwise

NAMES = st.text("ab/", min_size=1, max_size=3)
CHANGES = st.dictionaries(NAMES, st.none() | st.text(max_size=4).map(str.encode), max_size=5)


def heard(changes: dict[str, bytes | None], told: Told) -> None:
    for fact in books_kept("p03", 1, changes):
        note(told, codec.decode(BooksKept, codec.encode(fact)))


@given(st.lists(CHANGES, max_size=6))
def test_the_facts_make_what_was_stored(commits: list[dict[str, bytes | None]]) -> None:
    stored: dict[str, bytes] = {}
    told: Told = {}
    for changes in commits:
        stored |= {name: value for name, value in changes.items() if value is not None}
        for name in [name for name, value in changes.items() if value is None]:
            stored.pop(name, None)
        heard(changes, told)
        assert told_otherwise(told, stored) == ()


def test_what_differs_is_named_whether_lost_changed_or_never_told() -> None:
    told: Told = {}
    heard({"lost": b"1", "changed": b"1", "dropped": None, "same": b"1"}, told)
    stored = {"changed": b"2", "dropped": b"1", "untold": b"1", "same": b"1"}
    assert told_otherwise(told, stored) == ("changed", "dropped", "lost", "untold")


def test_much_is_said_in_several_facts_and_a_drop_once() -> None:
    big = b"x" * (PART_BYTES_MAX // 2)
    facts = list(books_kept("p03", 7, {"a": big, "b": big, "c": big, "d": None}))
    assert [(sorted(fact.kept), fact.dropped) for fact in facts] == [
        (["a", "b"], ("d",)),
        (["c"], ()),
    ]
    assert list(books_kept("p03", 7, {})) == []
