"""One object as its parser sees it."""

from dataclasses import dataclass

from muster_manifests.metadata import Metadata
from muster_manifests.reader import ObjectReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """An object whose kind and metadata are known; `body` reads the rest."""

    api_version: str
    kind: str
    metadata: Metadata
    body: ObjectReader
