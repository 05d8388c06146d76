from hypothesis import given
from hypothesis import strategies as st

from muster_manifests import dump, dump_manifest, load, load_object
from muster_manifests.yaml_source import read_yaml

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


def test_yaml_comes_back_as_it_was_written() -> None:
    first = "# ours\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: a   # short\n"
    second = "{apiVersion: v1, kind: Namespace, metadata: {name: b}}\n"
    documents = load(f"{first}---\n{second}", source="f").documents
    assert [dump(document) for document in documents] == [first, second]


def test_json_comes_back_as_yaml_that_means_the_same() -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"on": "yes", "version": "1.0"}},
        "spec": {
            "containers": [
                {"name": "c", "args": ["-c", "a\nb\n"], "resources": {"limits": {"cpu": 0.5}}}
            ]
        },
    }
    document = load_object(manifest, source="api")
    text = dump(document)
    assert text == (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  labels:\n"
        '    "on": "yes"\n    version: "1.0"\n'
        'spec:\n  containers:\n  - name: c\n    args:\n    - "-c"\n    - |\n      a\n      b\n'
        '    resources:\n      limits:\n        cpu: "0.5"\n'
    )
    (again,) = load(text, source="f").documents
    assert again.content == document.content
    assert again.manifest == document.manifest


@given(st.dictionaries(TEXTS.filter(lambda key: key != "<<"), VALUES, min_size=1, max_size=4))
def test_any_json_value_survives_the_way_to_yaml_and_back(manifest: dict[str, object]) -> None:
    (document,) = read_yaml(dump_manifest(manifest), source="f")
    assert document.value == manifest


@given(st.lists(st.sampled_from(["a", "  b", "\tc", "", "d  ", "#e", "-", "é"]), max_size=6))
def test_text_of_several_lines_survives(lines: list[str]) -> None:
    manifest = {"script": "\n".join(lines), "more": "\n".join([*lines, ""])}
    (document,) = read_yaml(dump_manifest(manifest), source="f")
    assert document.value == manifest
