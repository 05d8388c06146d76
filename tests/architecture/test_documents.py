"""What documents name exists."""

import importlib
import re

import pytest

from . import source

DOCUMENTS = tuple(path for path in source.files() if path.endswith(".md"))
NAME = re.compile(r"`(muster_[a-z_]+(?:\.[A-Za-z_]+)*)`")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
PACKAGES = {source.module(path).split(".")[0] for path in source.shipped()}


def exists(dotted: str) -> bool:
    module, _, name = dotted.rpartition(".")
    try:
        importlib.import_module(dotted)
    except ModuleNotFoundError:
        return bool(module) and hasattr(importlib.import_module(module), name)
    return True


@pytest.mark.parametrize("document", DOCUMENTS)
def test_names_in_a_document_exist(document: str) -> None:
    named = {name for name in NAME.findall(source.text(document)) if name.split(".")[0] in PACKAGES}
    assert sorted(name for name in named if not exists(name)) == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_in_a_document_lead_somewhere(document: str) -> None:
    folder = (source.ROOT / document).parent
    broken = [link for link in LINK.findall(source.text(document)) if not (folder / link).exists()]
    assert broken == []


def test_a_word_has_one_meaning() -> None:
    rows = [
        line.split("|")
        for line in source.text("docs/glossary.md").splitlines()
        if line.startswith("|") and "**" in line
    ]
    words = [word for row in rows for cell in row for word in re.findall(r"\*\*(.+?)\*\*", cell)]
    assert words
    assert [word for word in words if words.count(word) > 1] == []
