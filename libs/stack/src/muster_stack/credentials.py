"""Making passwords and tokens and keeping them in a file that only its owner may read."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from muster_domain.errors import InvalidValue

_RANDOM_BYTES = 24


def new_secret() -> str:
    """Letters and digits that start with a letter, which every configuration takes as text."""
    return f"m{secrets.token_hex(_RANDOM_BYTES)}"


def read_environment(path: Path) -> dict[str, str]:
    """Read NAME=value lines; a missing file is empty. Raises `InvalidValue`."""
    if not path.exists():
        return {}
    found: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise InvalidValue(f"line {number} is not NAME=value", field=str(path))
        found[name.strip()] = value.strip()
    return found


def complete(path: Path, names: Iterable[str]) -> dict[str, str]:
    """Add a new secret for every name the file lacks; what it has stays. Returns all of it."""
    found = read_environment(path)
    missing = [name for name in names if not found.get(name)]
    if missing or not path.exists():
        found.update({name: new_secret() for name in missing})
        write_private(path, "".join(f"{name}={value}\n" for name, value in sorted(found.items())))
    return found


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)
