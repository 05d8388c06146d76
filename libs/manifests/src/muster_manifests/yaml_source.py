"""YAML text to plain values with the place of every value.

Nesting, size and aliases are bounded while the text is read, so a hostile file costs no more than
its own length. YAML 1.2 core schema; timestamps stay text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from muster_manifests.plain import DEPTH_MAX, NODES_MAX, Plain
from muster_manifests.problems import ManifestError, Mark, Path, Problem, field_path
from muster_manifests.yaml_events import Token, TokenKind, place_error, read_tokens

TEXT_MAX_BYTES = 2 * 1024 * 1024
"""Size of one YAML stream."""

DOCUMENTS_MAX = 10_000
"""Documents in one stream."""

_INT = re.compile(r"[-+]?[0-9]+")
_INT_DIGITS_MAX = 40
_OTHER_BASE = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_LEADING_BLANK_LINES = re.compile(r"\A(?:[ \t]*\r?\n)+")
_NULLS = ("", "~", "null", "Null", "NULL")
_BOOLS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_TEXT_TAGS = ("tag:yaml.org,2002:str", "!")
_SCALAR_TAGS = ("", *_TEXT_TAGS, *(f"tag:yaml.org,2002:{n}" for n in ("int", "float", "bool")))
_COLLECTION_TAGS = ("", "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDocument:
    """One YAML document: its value, where each part of it stands, and its own text."""

    value: Plain
    marks: dict[Path, Mark]
    text: str
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


@dataclass(slots=True)
class _Scalar:
    mark: Mark
    value: bool | int | str | None


@dataclass(slots=True)
class _List:
    mark: Mark
    items: list["_Node"] = field(default_factory=list["_Node"])


@dataclass(slots=True)
class _Map:
    mark: Mark
    entries: dict[str, "_Entry"] = field(default_factory=dict[str, "_Entry"])
    repeated: list["_Entry"] = field(default_factory=list["_Entry"])
    merged: list["_Node"] = field(default_factory=list["_Node"])
    pending_key: tuple[str, Mark] | None = None


_Node: TypeAlias = _Scalar | _List | _Map


@dataclass(slots=True)
class _Entry:
    key: str
    mark: Mark
    node: _Node


def read_yaml(text: str | bytes, *, source: str) -> tuple[SourceDocument, ...]:
    """Read the documents of a YAML (or JSON) stream; empty documents are left out.

    Raises `ManifestError` for text that is no YAML, is not UTF-8, or exceeds a limit.
    """
    return tuple(_StreamReader(_decode(text, source), source).documents())


def _decode(text: str | bytes, source: str) -> str:
    if len(text) > TEXT_MAX_BYTES:
        raise place_error(source, Mark(1, 1), f"longer than {TEXT_MAX_BYTES} bytes", "split it")
    try:
        raw = text.encode("utf-8") if isinstance(text, str) else text
        decoded = raw.decode("utf-8")
    except UnicodeError as error:
        raise place_error(source, Mark(1, 1), "not UTF-8 text", "save it as UTF-8") from error
    if len(raw) > TEXT_MAX_BYTES:
        raise place_error(source, Mark(1, 1), f"longer than {TEXT_MAX_BYTES} bytes", "split it")
    return decoded.removeprefix("\ufeff")


class _StreamReader:
    """Builds the documents of one stream, without recursion."""

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._source = source
        self._stack: list[_List | _Map] = []
        self._anchors: dict[str, _Node] = {}
        self._root: _Node | None = None
        self._values = 0

    def documents(self) -> Iterator[SourceDocument]:
        count, start_index, end_index, head = 0, 0, 0, ""
        for token in read_tokens(self._text, source=self._source):
            if token.kind is TokenKind.DOCUMENT_START:
                self._stack, self._anchors, self._root, self._values = [], {}, None, 0
                start_index = token.end_index
                head = _comments(self._text[end_index : token.start_index])
            elif token.kind is TokenKind.DOCUMENT_END:
                count += 1
                if count > DOCUMENTS_MAX:
                    raise self._error(token, f"more than {DOCUMENTS_MAX} documents", "split it")
                end_index = token.start_index
                document = self._document(head, self._text[start_index:end_index])
                if document.value is not None:
                    yield document
            else:
                self._take(token)

    def _take(self, token: Token) -> None:
        match token.kind:
            case TokenKind.COLLECTION_END:
                self._stack.pop()
            case TokenKind.ALIAS:
                self._take_alias(token)
            case TokenKind.SCALAR:
                self._take_scalar(token)
            case _:
                self._take_collection(token)

    def _take_collection(self, token: Token) -> None:
        self._check_tag(token, _COLLECTION_TAGS)
        sequence = token.kind is TokenKind.SEQUENCE_START
        node = _List(token.mark) if sequence else _Map(token.mark)
        self._attach(node, token)
        self._stack.append(node)
        if len(self._stack) > DEPTH_MAX:
            raise self._error(token, f"nested deeper than {DEPTH_MAX} levels", "flatten it")

    def _take_alias(self, token: Token) -> None:
        node = self._anchors.get(token.anchor)
        if node is None:
            raise self._error(
                token, f"*{token.anchor} names no anchor", f"write &{token.anchor} before it"
            )
        if any(node is still_open for still_open in self._stack):
            raise self._error(token, f"*{token.anchor} contains itself", "write the value out")
        self._attach(node, token)

    def _take_scalar(self, token: Token) -> None:
        self._check_tag(token, _SCALAR_TAGS)
        parent = self._stack[-1] if self._stack else None
        if isinstance(parent, _Map) and parent.pending_key is None:
            self._count(token)
            parent.pending_key = (token.value, token.mark)
            return
        is_text = token.tag in _TEXT_TAGS or not (token.plain or token.tag)
        if not is_text and _LEADING_ZERO.fullmatch(token.value):
            raise self._error(
                token,
                f"{token.value} is octal to some readers and decimal to others",
                "write it without leading zeros, or in quotes",
            )
        value = token.value if is_text else _resolve(token.value)
        self._attach(_Scalar(token.mark, value), token)

    def _attach(self, node: _Node, token: Token) -> None:
        self._count(token)
        if token.anchor and token.kind is not TokenKind.ALIAS:
            self._anchors[token.anchor] = node
        if not self._stack:
            self._root = node
            return
        parent = self._stack[-1]
        if isinstance(parent, _List):
            parent.items.append(node)
            return
        if parent.pending_key is None:
            raise self._error(token, "a key must be text", "write key: value")
        (key, mark), parent.pending_key = parent.pending_key, None
        if key == "<<":
            parent.merged.append(node)
        elif key in parent.entries:
            parent.repeated.append(_Entry(key, mark, node))
        else:
            parent.entries[key] = _Entry(key, mark, node)

    def _count(self, token: Token) -> None:
        self._values += 1
        if self._values > NODES_MAX:
            raise self._error(token, f"more than {NODES_MAX} values", "split the document")

    def _check_tag(self, token: Token, known: tuple[str, ...]) -> None:
        if token.tag not in known:
            raise self._error(token, f"the tag {token.tag} is not read", "write a plain value")

    def _document(self, head: str, text: str) -> SourceDocument:
        expansion = _Expansion(self._source)
        value = None if self._root is None else expansion.expand(self._root, (), 0)
        return SourceDocument(
            value=value,
            marks=expansion.marks,
            text=head + _LEADING_BLANK_LINES.sub("", text),
            problems=tuple(expansion.problems),
            warnings=tuple(expansion.warnings),
        )

    def _error(self, token: Token, problem: str, fix: str) -> ManifestError:
        return place_error(self._source, token.mark, problem, fix)


class _Expansion:
    """Writes out aliases and merges, within the limits on values and depth."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._values = 0
        self.marks: dict[Path, Mark] = {}
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def expand(self, node: _Node, path: Path, depth: int) -> Plain:
        self.marks.setdefault(path, node.mark)
        self._count(node, depth)
        if isinstance(node, _Scalar):
            return node.value
        if isinstance(node, _List):
            return [
                self.expand(item, (*path, index), depth + 1)
                for index, item in enumerate(node.items)
            ]
        return self._expand_map(node, path, depth)

    def _expand_map(self, node: _Map, path: Path, depth: int) -> dict[str, Plain]:
        self._count(node, depth)
        result: dict[str, Plain] = {}
        for entry in node.entries.values():
            self.marks.setdefault((*path, entry.key), entry.mark)
            result[entry.key] = self.expand(entry.node, (*path, entry.key), depth + 1)
        for entry in node.repeated:
            value = self.expand(entry.node, (*path, entry.key), depth + 1)
            self._note_repeated(node, entry, path, same=value == result[entry.key])
        for merged in node.merged:
            for inherited in merged.items if isinstance(merged, _List) else (merged,):
                if not isinstance(inherited, _Map):
                    raise place_error(self._source, merged.mark, "<< needs a mapping", "name one")
                for key, value in self._expand_map(inherited, path, depth + 1).items():
                    result.setdefault(key, value)
        return result

    def _note_repeated(self, node: _Map, entry: _Entry, path: Path, *, same: bool) -> None:
        problem = Problem(
            source=self._source,
            mark=entry.mark,
            field=field_path((*path, entry.key)),
            problem=f"written twice, first in line {node.entries[entry.key].mark.line}",
            fix="remove one of them",
        )
        (self.warnings if same else self.problems).append(problem)

    def _count(self, node: _Node, depth: int) -> None:
        self._values += 1
        if self._values > 2 * NODES_MAX or depth > DEPTH_MAX:
            raise place_error(
                self._source, node.mark, "its aliases expand beyond all bounds", "write it out"
            )


def _comments(text: str) -> str:
    """Return the comments above a document; directives stay behind."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if line.lstrip().startswith("#"))


def _resolve(text: str) -> bool | int | str | None:
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if len(text) <= _INT_DIGITS_MAX:
        if _INT.fullmatch(text):
            return int(text)
        if _OTHER_BASE.fullmatch(text):
            return int(text, 0)
    return text
