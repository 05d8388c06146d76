"""Files and folders of manifests."""

import sys
from dataclasses import dataclass
from pathlib import Path

from muster.errors import BadArgument

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """The bytes of one file and what it is called in problems."""

    name: str
    content: bytes


def read_files(place: str) -> list[ManifestFile]:
    """The file, the folder's manifests sorted by name, or stdin. Raises `BadArgument`."""
    if place == STDIN:
        return [ManifestFile("stdin", sys.stdin.buffer.read())]
    path = Path(place)
    paths = (
        sorted(found for found in path.rglob("*") if found.suffix in SUFFIXES)
        if path.is_dir()
        else [path]
    )
    if not paths:
        raise BadArgument(f"{place} holds no manifests", fix=f"name them {' or '.join(SUFFIXES)}")
    try:
        return [ManifestFile(str(found), found.read_bytes()) for found in paths]
    except OSError as error:
        raise BadArgument(f"cannot read {error.filename}: {error.strerror}") from error


def read_file(place: str) -> ManifestFile:
    """One file or stdin. Raises `BadArgument`."""
    if place != STDIN and Path(place).is_dir():
        raise BadArgument(f"{place} is a folder", fix=f"muster apply -f {place}")
    return read_files(place)[0]
