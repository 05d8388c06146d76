"""Where things are printed: results on stdout, everything else on stderr."""

import json
import os
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import cast

from rich.console import Console, RenderableType

from muster.client import pretty_json
from muster.errors import BadArgument, ClientError, Refused, Unreachable
from muster_contracts import codec
from muster_contracts.api import Problem
from muster_manifests import dump_manifest

PIPE_WIDTH = 400
"""Lines are not cut when nobody reads them on a screen."""


class Format(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"


def stdout() -> Console:
    """The console for results."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(file=sys.stdout, width=width, highlight=False, no_color=_no_color())


def stderr() -> Console:
    """The console for progress and problems."""
    return Console(file=sys.stderr, highlight=False, soft_wrap=True, no_color=_no_color())


def _no_color() -> bool | None:
    return True if os.environ.get("NO_COLOR") else None


def emit(value: object, wanted: Format, shown: Callable[[bool], RenderableType]) -> None:
    """Print a result; `shown` makes it readable and is told whether it may be wide."""
    match wanted:
        case Format.JSON:
            sys.stdout.write(pretty_json(value) + "\n")
        case Format.YAML:
            sys.stdout.write(as_yaml(value))
        case Format.TABLE | Format.WIDE:
            stdout().print(shown(wanted is Format.WIDE))
        case Format.CSV:
            raise BadArgument("this has no CSV form", fix="use -o json")


def as_yaml(value: object) -> str:
    """Any answer as YAML."""
    plain: object = json.loads(codec.encode(value))
    return dump_manifest(cast("dict[str, bool | int | str | None]", _without_floats(plain)))


def _without_floats(value: object) -> object:
    if isinstance(value, float):
        return str(value)
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {name: _without_floats(inner) for name, inner in fields.items()}
    if isinstance(value, list):
        return [_without_floats(inner) for inner in cast("list[object]", value)]
    return value


def lines(texts: Iterable[str]) -> str:
    """Texts one below the other."""
    return "\n".join(texts)


def warn(texts: Iterable[str]) -> None:
    """Print warnings on stderr."""
    console = stderr()
    for text in texts:
        console.print(f"warning: {text}", style="yellow", markup=False)


def warn_unpriced(pairs: Iterable[str]) -> None:
    """Warn on stderr of `flavor/resource` pairs whose time is in no amount."""
    named = tuple(pairs)
    if named:
        flavor, _, resource = named[0].partition("/")
        fix = f'flavors: {{{flavor}: {{{resource}: {{hourly: "1.40"}}}}}}'
        warn([f"no price, so in no amount: {', '.join(named)}; write in a PriceList {fix}"])


def say(text: str, style: str = "") -> None:
    """Print a line on stderr."""
    stderr().print(text, style=style or None, markup=False)


def complain(error: ClientError, command: str = "") -> None:
    """Print what went wrong in a command: problem, place, what to write instead, what is next."""
    console = stderr()
    found = [f"error: {error}"]
    following = ""
    match error:
        case Refused(refusal=refusal):
            following = _NEXT.get(refusal.kind, "")
            if command in _ABOUT_JOBS:
                following = following or _NEXT_OF_JOBS.get(refusal.kind, "")
            if refusal.kind == "not_found":
                following = following or _LISTS.get(command, "")
            if refusal.problems:
                found = [f"error: {_located(problem)}" for problem in refusal.problems]
            else:
                found += [f"  field: {refusal.field}"] if refusal.field else []
                found += [f"  fix: {refusal.fix}"] if refusal.fix else []
        case BadArgument(fix=fix) if fix:
            found.append(f"  fix: {fix}")
        case Unreachable():
            following = "check MUSTER_URL, or start one: muster up"
        case _:
            pass
    if following:
        found.append(f"  next: {following}")
    for number, line in enumerate(found):
        console.print(line, style="bold red" if number == 0 else None, markup=False)


def _located(problem: Problem) -> str:
    place = f"{problem.source}:{problem.line}:{problem.column}" if problem.line else problem.source
    head = ": ".join(part for part in (place, problem.field) if part)
    return f"{head}: {problem.problem}" + (f"; {problem.fix}" if problem.fix else "")


_ABOUT_JOBS = frozenset({
    "submit", "plan", "wait", "cancel", "checkpoint", "run", "explain", "queue", "watch", "logs",
})  # fmt: skip
_NEXT_OF_JOBS = {
    "not_found": "muster queue --all; in another namespace: -n NAMESPACE, or NAMESPACE/NAME",
    "conflict": "muster explain ID",
    "invalid": "muster plan FILE",
}
_LISTS = {
    "quota": "muster quota",
    "budget": "muster budget",
    "drain": "muster nodes",
    "uncordon": "muster nodes",
    "flow": "muster get jobflow -n NAMESPACE",
    "get": "muster get KIND",
    "stop": "muster get clusterqueue",
    "resume": "muster get clusterqueue",
    "delete": "muster get KIND",
}
"""What shows the names that a command would have understood."""
_NEXT = {
    "unauthenticated": "ask who operates Muster for a token, then: muster status",
    "foreign": "check MUSTER_URL: it is the address of the API, not that of the console",
    "forbidden": "ask for a token with that role: curl $MUSTER_URL/v1/whoami",
    "unavailable": "the same again in a moment",
}
