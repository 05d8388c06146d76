"""ruamel's event stream as typed tokens, and its errors as problems with a place.

The only module that touches ruamel's parser.
"""

from collections.abc import Iterator
from enum import Enum, auto
from io import StringIO
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from muster_manifests.problems import ManifestError, Mark, Problem


class TokenKind(Enum):
    """What a token opens, closes or holds."""

    DOCUMENT_START = auto()
    DOCUMENT_END = auto()
    SEQUENCE_START = auto()
    MAPPING_START = auto()
    COLLECTION_END = auto()
    SCALAR = auto()
    ALIAS = auto()


class Token(NamedTuple):
    """One event. `plain` is a scalar without quotes; indices count characters of the text."""

    kind: TokenKind
    mark: Mark
    start_index: int
    end_index: int
    value: str = ""
    plain: bool = False
    anchor: str = ""
    tag: str = ""


_KINDS = {
    "DocumentStartEvent": TokenKind.DOCUMENT_START,
    "DocumentEndEvent": TokenKind.DOCUMENT_END,
    "SequenceStartEvent": TokenKind.SEQUENCE_START,
    "MappingStartEvent": TokenKind.MAPPING_START,
    "SequenceEndEvent": TokenKind.COLLECTION_END,
    "MappingEndEvent": TokenKind.COLLECTION_END,
    "ScalarEvent": TokenKind.SCALAR,
    "AliasEvent": TokenKind.ALIAS,
}


def read_tokens(text: str, *, source: str) -> Iterator[Token]:
    """Yield the tokens of a YAML stream. Raises `ManifestError` where the text is not YAML."""
    yaml: Any = YAML(typ="safe", pure=True)
    try:
        for event in yaml.parse(StringIO(text)):
            kind = _KINDS.get(type(event).__name__)
            if kind is not None:
                yield _token(kind, event)
    except MarkedYAMLError as error:
        raise _syntax_error(text, source, error) from error
    except ReaderError as error:
        before = text[: _number(error, "position")]
        mark = Mark(before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise place_error(
            source, mark, "a control character cannot stand in YAML", "remove it"
        ) from error
    except YAMLError as error:
        raise place_error(source, Mark(1, 1), f"not YAML: {error}") from error


def place_error(source: str, mark: Mark, problem: str, fix: str = "") -> ManifestError:
    """Make the error for one problem of the text itself, outside any field."""
    return ManifestError((Problem(source=source, mark=mark, field="", problem=problem, fix=fix),))


def _token(kind: TokenKind, event: Any) -> Token:  # noqa: ANN401 - ruamel has no types
    implicit: Any = getattr(event, "implicit", None)
    return Token(
        kind=kind,
        mark=_mark(event.start_mark),
        start_index=_number(event.start_mark, "index"),
        end_index=_number(event.end_mark, "index"),
        value=str(getattr(event, "value", "")),
        plain=bool(implicit and kind is TokenKind.SCALAR and implicit[0]),
        anchor=str(getattr(event, "anchor", None) or ""),
        tag=str(getattr(event, "tag", None) or ""),
    )


def _syntax_error(text: str, source: str, error: Any) -> ManifestError:  # noqa: ANN401 - ruamel has no types
    raw = error.problem_mark or error.context_mark
    mark = Mark(1, 1) if raw is None else _mark(raw)
    lines = text.splitlines()
    line = lines[mark.line - 1] if mark.line <= len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return place_error(source, mark, "a tab cannot indent YAML", "indent with spaces")
    return place_error(source, mark, f"not YAML: {error.problem or error.context}")


def _mark(raw: object) -> Mark:
    return Mark(_number(raw, "line") + 1, _number(raw, "column") + 1)


def _number(holder: object, name: str) -> int:
    value: object = getattr(holder, name, 0)
    return value if isinstance(value, int) else 0
