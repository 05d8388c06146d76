from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

from muster_manifests import Document, JobSubmission, ManifestError, Problem, load

SOURCE = "team.yaml"


@pytest.fixture
def load_one() -> Callable[[str], Document]:
    """Loads a text that holds exactly one object."""

    def load_text(text: str) -> Document:
        (document,) = load(dedent(text), source=SOURCE).documents
        return document

    return load_text


@pytest.fixture
def load_content(load_one: Callable[[str], Document]) -> Callable[[str], Any]:
    """Loads a text that holds exactly one object and gives what became of it."""
    return lambda text: load_one(text).content


@pytest.fixture
def load_job(load_one: Callable[[str], Document]) -> Callable[[str], JobSubmission]:
    """Loads a text that holds exactly one job."""

    def load_text(text: str) -> JobSubmission:
        content = load_one(text).content
        assert isinstance(content, JobSubmission)
        return content

    return load_text


@pytest.fixture
def refused() -> Callable[[str], list[tuple[str, str]]]:
    """Gives field and problem of everything wrong with a text."""

    def load_text(text: str) -> list[tuple[str, str]]:
        return [(found.field, found.problem) for found in problems_of(text)]

    return load_text


@pytest.fixture
def problems() -> Callable[[str], tuple[Problem, ...]]:
    """Gives everything wrong with a text."""
    return problems_of


@pytest.fixture
def warned() -> Callable[[str], list[tuple[str, str]]]:
    """Gives field and text of every warning about a text that is taken."""

    def load_text(text: str) -> list[tuple[str, str]]:
        return [
            (found.field, found.problem) for found in load(dedent(text), source=SOURCE).warnings
        ]

    return load_text


def problems_of(text: str) -> tuple[Problem, ...]:
    with pytest.raises(ManifestError) as caught:
        load(dedent(text), source=SOURCE)
    return caught.value.problems
