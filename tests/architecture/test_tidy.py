"""Rules about the code as text and syntax that no linter of ours knows."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

from . import source

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
THIS_FOLDER = "tests/architecture/"

FLOATS_ALLOWED = {
    "libs/manifests/src/muster_manifests/plain.py: float": "recognises a number that YAML read",
    "libs/rating/src/muster_rating/opencost/sets.py: /": "divides Fractions, exactly",
    "libs/rating/src/muster_rating/price_lists.py: /": "divides a Fraction, exactly",
    "libs/rating/src/muster_rating/prices.py: /": "divides a Fraction, exactly",
}
SLEEPS_ALLOWED = {
    "services/agent/tests/bench.py": "polls a condition with a deadline",
    "services/gateway/tests/house.py": "is an owner that does not answer",
    "tests/performance/path.py": "offers jobs at a given rate",
}
"""Both lists may only become shorter: an entry that nothing needs fails too."""

WAITS = re.compile(r"(^|\.)sleep$")
SUBJECT = re.compile(r"muster\.(>|(v1|obj|evt|cmd|tel|rpc|dlq)\.)")
SUBJECTS_AT_HOME = (
    "libs/contracts/src/muster_contracts/subjects.py",
    "libs/contracts/src/muster_contracts/streams.py",
    "libs/stack/src/muster_stack/bus_users.py",
)
WORDS = re.compile(
    r"\b(TODO|FIXME|XXX)\b|\bin production\b|\bplaceholder\b(?!=)|\bfor now\b|NotImplementedError",
)
VAGUE = re.compile(r"(^|_)(utils?|helpers?|commons?|managers?|misc)($|_)")
REGISTRIES = re.compile(
    r"pypi\.org|pythonhosted\.org|registry\.npmjs|docker\.io/|ghcr\.io|quay\.io|gcr\.io"
    r"|jsdelivr|unpkg\.com|cdnjs|proxy\.golang"
)
MACHINE_PATHS = re.compile(r"(?<![\w.$}>])/(?:work|root|home|Users|workspace)/\w")
INVARIANT = re.compile(r"INV-\d+")
METRIC = re.compile(r"(muster|node)_[a-z0-9_]+")
METRIC_TYPES = {"Counter", "Gauge", "Histogram", "Summary", "Info", "Enum"}


def of(found: Iterator[str] | list[str]) -> list[str]:
    return sorted(found)


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        f"{path}:{node.lineno} {node.name} has {lines} lines"
        for path in source.python()
        for node in source.nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_no_file_is_longer_than_one_can_keep_in_mind() -> None:
    long = [
        f"{path} has {lines} lines"
        for path in source.python()
        if (lines := source.text(path).count("\n")) > FILE_LINES_MAX
    ]
    assert long == []


def is_set(node: ast.AST, names: frozenset[str]) -> bool:
    """Whether an expression makes a set, or is a name that was bound to one."""
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in names
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.BinOp(op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor()):
            return is_set(node.left, names) or is_set(node.right, names)
        case _:
            return False


def set_names(function: ast.AST) -> frozenset[str]:
    """The local names that are bound to sets."""
    found: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) if is_set(node.value, frozenset()):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.arg(arg=name):
                written = ast.unparse(node.annotation) if node.annotation else ""
                if re.match(r"(Abstract)?(frozen)?[sS]et\[", written):
                    found.add(name)
            case _:
                pass
    return frozenset(found)


def ordered_by_hash(function: ast.AST) -> Iterator[tuple[int, str]]:
    """Where a function walks a set in the order of its hashes."""
    names = set_names(function)
    orderless = {
        id(argument)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("sorted", "min", "max", "sum", "any", "all", "set", "frozenset")
        for argument in node.args
    }
    for node in ast.walk(function):
        match node:
            case ast.For(iter=walked) if is_set(walked, names):
                yield walked.lineno, ast.unparse(walked)
            case ast.ListComp() | ast.GeneratorExp() | ast.DictComp() if id(node) not in orderless:
                for part in node.generators:
                    if is_set(part.iter, names):
                        yield part.iter.lineno, ast.unparse(part.iter)
            case ast.Call(func=ast.Name(id="list" | "tuple" | "next" | "iter" | "enumerate")):
                if node.args and is_set(node.args[0], names):
                    yield node.lineno, ast.unparse(node)
            case _:
                pass


def test_no_order_comes_from_hashes() -> None:
    found = {
        f"{path}:{line} walks {what}"
        for path in source.pure()
        for function in source.nodes(path)
        if isinstance(function, ast.FunctionDef)
        for line, what in ordered_by_hash(function)
    }
    assert of(list(found)) == []


def floats(path: str) -> Iterator[str]:
    for node in source.nodes(path):
        match node:
            case ast.Name(id="float" | "round" as name):
                yield name
            case ast.Constant(value=float()):
                yield str(node.value)
            case ast.BinOp(op=ast.Div()):
                yield "/"
            case _:
                pass


def test_quantities_and_money_are_whole_numbers() -> None:
    found = {f"{path}: {what}" for path in source.pure() for what in floats(path)}
    assert of(list(found)) == of(list(FLOATS_ALLOWED))


def test_pure_code_asks_no_clock() -> None:
    asked = [
        f"{path}:{node.lineno} {ast.unparse(node)}"
        for path in source.pure()
        for node in source.nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today")
        if ast.unparse(node.value) in ("datetime", "date", "datetime.datetime", "time")
    ]
    assert asked == []


def test_tests_wait_for_conditions_and_not_for_time() -> None:
    sleepers = {
        path
        for path in source.tests()
        for node in source.nodes(path)
        if isinstance(node, ast.Call) and WAITS.search(ast.unparse(node.func))
        if [ast.unparse(argument) for argument in node.args] != ["0"]  # only gives way to others
    }
    assert of(list(sleepers)) == of(list(SLEEPS_ALLOWED))


def test_tests_replace_none_of_our_code() -> None:
    mocking = [
        path
        for path in source.python()
        if any("mock" in name.split(".") for name in source.imported(path))
    ]
    assert mocking == []


def test_nothing_is_left_for_later() -> None:
    left = [
        f"{path}:{number} {line.strip()[:80]}"
        for path in source.files()
        if not path.startswith(THIS_FOLDER)
        for number, line in enumerate(source.text(path).splitlines(), 1)
        if WORDS.search(line)
    ]
    assert left == []


def test_names_say_what_is_inside() -> None:
    vague = [path for path in source.python() if VAGUE.search(PurePosixPath(path).stem)]
    vague += [path for path in source.python() if VAGUE.search(PurePosixPath(path).parent.name)]
    assert vague == []


def test_subjects_are_built_in_one_place() -> None:
    literal = [
        f"{path}:{line} {written}"
        for path in source.shipped()
        if path not in SUBJECTS_AT_HOME
        for line, written in source.strings(path)
        if SUBJECT.match(written)
    ]
    assert literal == []


def test_every_invariant_is_checked_somewhere() -> None:
    document = "ARCHITECTURE.md"
    if document not in source.files():
        pytest.skip(f"{document} is not written yet")
    promised = set(INVARIANT.findall(source.text(document)))
    assert promised, f"{document} names no invariants"
    checked = {
        name
        for path in (*source.tests(), *source.shipped())
        if not path.startswith(THIS_FOLDER)
        for name in INVARIANT.findall(source.text(path))
    }
    assert promised - checked == set()
    assert checked - promised == set()


def started() -> set[str]:
    """The modules that are run or loaded by name instead of imported."""
    found: set[str] = set()
    for path in source.files():
        if path.endswith("pyproject.toml"):
            found |= set(re.findall(r'"(muster[a-z_.]*):\w+"', source.text(path)))
        elif path.endswith((".py", "Makefile", ".yml", ".Dockerfile", "Dockerfile")):
            found |= set(re.findall(r"\bmuster(?:_[a-z]+)?(?:\.[a-z_]+)+", source.text(path)))
    return found


def test_every_module_is_used() -> None:
    names = {source.module(path) for path in source.shipped()}
    used = {name for path in source.python() for name in source.imported(path)}
    alone = {
        name for name in names - used - started() if not name.endswith("__main__") and "." in name
    }
    alone -= {name for name in alone if ".migrations." in name}  # alembic loads them by file name
    packages = {name for name in alone if any(other.startswith(f"{name}.") for other in names)}
    assert of(list(alone - packages)) == []


def metric_names() -> Iterator[str]:
    for path in source.shipped():
        for node in source.nodes(path):
            match node:
                case ast.Call(func=ast.Name(id=kind), args=[ast.Constant(value=str(name)), *_]) if (
                    kind in METRIC_TYPES and METRIC.fullmatch(name)
                ):
                    yield name
                case _:
                    pass


def test_a_metric_has_one_home() -> None:
    declared = Counter(metric_names())
    assert declared, "no metric was found: the rule looks for the wrong thing"
    assert [name for name, times in declared.items() if times > 1] == []


def test_nothing_names_a_registry_or_somebodys_machine() -> None:
    named = [
        f"{path}:{number} {line.strip()[:80]}"
        for path in source.files()
        if not path.startswith(THIS_FOLDER)
        for number, line in enumerate(source.text(path).splitlines(), 1)
        if REGISTRIES.search(line) or MACHINE_PATHS.search(line)
    ]
    assert named == []


def test_the_lock_pins_by_hash_and_names_no_address() -> None:
    lock = source.text("requirements.lock")
    assert not re.search(r"://|--index-url|--extra-index-url|--find-links", lock)
    pinned = re.findall(r"(?m)^[A-Za-z0-9_.\[\]-]+==", lock)
    blocks = re.split(r"(?m)^(?=[A-Za-z0-9_.\[\]-]+==)", lock)[1:]
    assert pinned
    assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []
