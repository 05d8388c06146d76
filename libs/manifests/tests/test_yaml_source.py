import pytest

from muster_manifests import ManifestError, load
from muster_manifests.plain import DEPTH_MAX
from muster_manifests.problems import Mark
from muster_manifests.yaml_source import DOCUMENTS_MAX, TEXT_MAX_BYTES, read_yaml


def values(text: str | bytes) -> list[object]:
    return [document.value for document in read_yaml(text, source="f.yaml")]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        pytest.param("4", 4, id="int"),
        pytest.param("-4", -4, id="negative"),
        pytest.param("0x10", 16, id="hexadecimal"),
        pytest.param("0o17", 15, id="octal"),
        pytest.param("0.5", "0.5", id="a fraction stays text"),
        pytest.param("1e3", "1e3", id="an exponent stays text"),
        pytest.param("1000000000Gi", "1000000000Gi", id="quantity"),
        pytest.param("'4'", "4", id="quoted"),
        pytest.param("!!str 4", "4", id="tagged text"),
        pytest.param("true", True, id="true"),
        pytest.param("yes", "yes", id="yes is text"),
        pytest.param("on", "on", id="on is text"),
        pytest.param("null", None, id="null"),
        pytest.param("~", None, id="tilde"),
        pytest.param("", None, id="nothing"),
        pytest.param("2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z", id="a time is text"),
        pytest.param("9" * 41, "9" * 41, id="too long for a number"),
        pytest.param(".inf", ".inf", id="infinity is text"),
    ],
)
def test_scalars_are_json_values_without_floats(written: str, value: object) -> None:
    assert values(f"key: {written}\n") == [{"key": value}]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        pytest.param("a:\n  - b: 1\n\t- c: 2\n", 3, "a tab cannot indent YAML", id="tab"),
        pytest.param("a: 1\nb: [1\n", 3, "not YAML", id="open bracket"),
        pytest.param("a: 1\nb: c: d\n", 2, "not YAML", id="two colons"),
        pytest.param("a: 1\nb: @x\n", 2, "not YAML", id="at sign"),
        pytest.param("a: 1\nb: \x07\n", 2, "a control character", id="control character"),
        pytest.param("a: 1\na: 2\n", 2, "written twice, first in line 1", id="two values"),
        pytest.param("a: 1\nb: 007\n", 2, "007 is octal to some", id="leading zero"),
        pytest.param("a: 1\nb: *x\n", 2, "*x names no anchor", id="no anchor"),
        pytest.param("a: 1\nb: &x\n  c: *x\n", 3, "*x contains itself", id="recursion"),
        pytest.param("a: 1\nb: !!binary aGk=\n", 2, "is not read", id="binary"),
        pytest.param("a: 1\nb: !ruby/object {}\n", 2, "is not read", id="foreign tag"),
        pytest.param("a: 1\n? [b]\n: 2\n", 2, "a key must be text", id="key of brackets"),
        pytest.param("a: 1\nb: {<<: 3}\n", 2, "<< needs a mapping", id="merge of a number"),
        pytest.param("%YAML 3.0\n---\na: 1\n", 1, "not YAML", id="version"),
        pytest.param("a: 1\nb: " + "[" * 200 + "]" * 200, 2, "nested deeper", id="nesting"),
        pytest.param("a: \ud800", 1, "not UTF-8", id="lone surrogate"),
        pytest.param(b"a: \xff\xfe", 1, "not UTF-8", id="not UTF-8"),
        pytest.param(b"a: " + b"x" * TEXT_MAX_BYTES, 1, "longer than", id="size"),
        pytest.param("é" * (TEXT_MAX_BYTES - 9), 1, "longer than", id="size in bytes"),
        pytest.param("--- 1\n" * (DOCUMENTS_MAX + 1), DOCUMENTS_MAX + 2, "more than", id="count"),
    ],
)
def test_text_that_is_refused_names_line_and_reason(
    text: str | bytes, line: int, words: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        load(text, source="f.yaml")
    problem = caught.value.problems[0]
    assert words in problem.problem
    assert problem.mark.line == line
    assert problem.source == "f.yaml"


def test_a_bomb_of_aliases_is_refused_before_it_expands() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    with pytest.raises(ManifestError, match="beyond all bounds"):
        read_yaml("\n".join(lines), source="f.yaml")


def test_a_bomb_of_merges_is_refused_before_it_expands() -> None:
    lines = ["a0: &a0 {}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 60)]
    with pytest.raises(ManifestError, match="beyond all bounds"):
        read_yaml("\n".join(lines), source="f.yaml")


def test_a_long_chain_of_merges_is_refused() -> None:
    lines = ["a0: &a0 {}"]
    lines += [f"a{n}: &a{n} {{<<: *a{n - 1}}}" for n in range(1, 100)]
    with pytest.raises(ManifestError, match="beyond all bounds"):
        read_yaml("\n".join(lines), source="f.yaml")


def test_nesting_up_to_the_limit_is_taken() -> None:
    depth = DEPTH_MAX - 1
    assert len(values("a: " + "[" * depth + "]" * depth)) == 1


def test_anchors_aliases_and_merges_are_written_out() -> None:
    text = "base: &base {image: x, cpu: 1}\nother: {<<: *base, cpu: 2}\nsame: *base\n"
    assert values(text) == [
        {
            "base": {"image": "x", "cpu": 1},
            "other": {"image": "x", "cpu": 2},
            "same": {"image": "x", "cpu": 1},
        }
    ]


def test_the_same_value_twice_is_a_warning() -> None:
    (document,) = read_yaml("a: {}\nb: 1\na: {}\n", source="f.yaml")
    assert document.value == {"a": {}, "b": 1}
    (warning,) = document.warnings
    assert (warning.mark, warning.field) == (Mark(3, 1), "a")


def test_empty_documents_are_left_out() -> None:
    assert values("---\n---\na: 1\n---\n# nothing\n---\n\n---\nb: 2") == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    "text", ["", "\n", "---", "# only a comment\n", "---\n...\n", b"\xef\xbb\xbf"]
)
def test_a_text_of_nothing_holds_no_documents(text: str | bytes) -> None:
    assert values(text) == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: 1\nb: 2", id="no newline at the end"),
        pytest.param("---\na: 1\nb: 2\n", id="leading marker"),
        pytest.param("\ufeffa: 1\nb: 2\n", id="byte order mark"),
        pytest.param("a: 1\r\nb: 2\r\n", id="line ends of Windows"),
        pytest.param("a: 1  \nb: 2 \n\n\n", id="trailing blanks"),
        pytest.param('{"a": 1, "b": 2}', id="JSON"),
        pytest.param('{"a":1,"b":2}', id="tight JSON"),
        pytest.param("---\n  a: 1\n  b: 2\n", id="indented as a whole"),
    ],
)
def test_the_same_object_in_many_dresses(text: str) -> None:
    assert values(text) == [{"a": 1, "b": 2}]


def test_every_value_knows_its_place() -> None:
    text = "# head\na: 1\nb:\n  - c: x\n    d: y\n---\ne: z\n"
    first, second = read_yaml(text, source="f.yaml")
    assert first.marks[()] == Mark(2, 1)
    assert first.marks["b",] == Mark(3, 1)
    assert first.marks["b", 0] == Mark(4, 5)
    assert first.marks["b", 0, "d"] == Mark(5, 5)
    assert second.marks["e",] == Mark(7, 1)


def test_a_document_keeps_its_own_text() -> None:
    text = "# head\na: 0.50 # half\n---\n\n  b: [1,\n   2]\n---\nc: 3"
    texts = [document.text for document in read_yaml(text, source="f.yaml")]
    assert texts == ["# head\na: 0.50 # half\n", "  b: [1,\n   2]\n", "c: 3"]
