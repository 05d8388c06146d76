"""Writes what follows from the messages: their schemas and the protocol document.

`python -m muster_contracts.generate` in a checkout. With `--release` the schemas also become what
the next ones are held to, unless they break the last ones.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from muster_contracts import asyncapi
from muster_contracts.compatibility import breaks
from muster_contracts.registry import messages

SCHEMAS = Path(__file__).with_name("schemas")
PACKAGE = Path(__file__).parents[2]
SAMPLES = PACKAGE / "samples"
RELEASED = PACKAGE / "released.json"
PROTOCOL = PACKAGE.parents[1] / "docs" / "protocol" / "asyncapi.yaml"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of one message."""
    return {"$schema": DIALECT, **TypeAdapter[Any](messages()[name]).json_schema()}


def outputs() -> dict[Path, str]:
    """Every generated file and what it must say."""
    files = {SCHEMAS / f"{name}.json": _json(schema(name)) for name in messages()}
    return {**files, PROTOCOL: asyncapi.document(SAMPLES)}


def broken() -> list[str]:
    """What the present schemas break of the released ones."""
    released: dict[str, dict[str, Any]] = json.loads(RELEASED.read_text())
    present = messages()
    return [
        f"{name}{what.removeprefix('$')}"
        for name, old in released.items()
        for what in (breaks(old, schema(name)) if name in present else (": is gone",))
    ]


def main() -> None:
    """Write all files; remove schemas of messages that are gone."""
    files = outputs()
    for stale in set(SCHEMAS.glob("*.json")) - files.keys():
        stale.unlink()
    for path, said in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(said)
    if "--release" in sys.argv[1:]:
        if RELEASED.exists() and (found := broken()):
            sys.exit("\n".join(found))
        RELEASED.write_text(_lines({name: schema(name) for name in messages()}))


def _json(value: object) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _lines(values: dict[str, dict[str, Any]]) -> str:
    """A JSON object with a line for each field, so that a change shows as a line."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(value, sort_keys=True)}" for name, value in values.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    main()
