"""The tree as text and as syntax: what the rules of this folder read."""

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SKIPPED = {"build", "node_modules", "__pycache__", "uv.lock"}
PURE = re.compile(
    r"libs/(domain|scheduling|rating|manifests)/src/"
    r"|libs/ledger/src/muster_ledger/(model|holds|verify|encoding)\.py"
)
"""Where decisions are made: no clock, no chance, no float, no order that a hash decides."""


@cache
def files() -> tuple[str, ...]:
    """Every file that belongs to the project, by its path from the root."""
    found: list[str] = []
    for folder, folders, names in os.walk(ROOT):
        here = Path(folder)
        folders[:] = [
            name
            for name in folders
            if name not in SKIPPED and (name == ".ci" or not name.startswith("."))
        ]
        found += [
            (here / name).relative_to(ROOT).as_posix() for name in names if name not in SKIPPED
        ]
    return tuple(sorted(found))


@cache
def text(path: str) -> str:
    """What a file says; nothing for one that is no text."""
    try:
        return (ROOT / path).read_text()
    except UnicodeDecodeError:
        return ""


@cache
def syntax(path: str) -> ast.Module:
    """The syntax tree of a Python file."""
    return ast.parse(text(path), path)


def python() -> tuple[str, ...]:
    """Every Python file."""
    return tuple(path for path in files() if path.endswith(".py"))


def shipped() -> tuple[str, ...]:
    """The Python files of the packages, without their tests."""
    return tuple(path for path in python() if "/src/" in path)


def tests() -> tuple[str, ...]:
    """The Python files of tests."""
    return tuple(path for path in python() if "tests/" in path)


def pure() -> tuple[str, ...]:
    """The Python files of the pure libraries."""
    return tuple(path for path in shipped() if PURE.match(path))


def module(path: str) -> str:
    """The dotted name under which a shipped file is imported."""
    name = path.split("/src/")[1].removesuffix(".py").removesuffix("/__init__")
    return name.replace("/", ".")


@cache
def nodes(path: str) -> tuple[ast.AST, ...]:
    """Every node of a file's syntax."""
    return tuple(ast.walk(syntax(path)))


def strings(path: str) -> Iterator[tuple[int, str]]:
    """Line and text of every string that is not a docstring, parts of f-strings too."""
    spoken = {
        id(node.value)
        for node in nodes(path)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in nodes(path):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in spoken
        ):
            yield node.lineno, node.value


@cache
def imported(path: str) -> frozenset[str]:
    """The modules that a file imports, and the names it takes from them in case those are some."""
    return frozenset(_imported(path))


def _imported(path: str) -> Iterator[str]:
    package = module(path) if "/src/" in path else ""
    if not path.endswith("__init__.py"):
        package = package.rpartition(".")[0]
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join((*above, node.module or "")) if node.level else node.module or ""
            base = base.strip(".")
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
