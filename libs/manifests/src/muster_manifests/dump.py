"""Documents back to YAML."""

import re
from collections.abc import Mapping
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.representer import SafeRepresenter

from muster_manifests.document import Document
from muster_manifests.plain import Plain

_LINE_MAX = 1 << 20
_NEEDS_NO_QUOTES = re.compile(r"[A-Za-z./_][A-Za-z0-9./_-]*")
_BLOCK = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?\n)(?:(?:[ -~]*[!-~])?\n)*(?:[ -~]*[!-~])?")
_WORDS_OF_YAML = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def dump(document: Document) -> str:
    """Return a document as it was applied: its own text, or else its values as YAML."""
    return document.text or dump_manifest(document.manifest)


def dump_manifest(manifest: Mapping[str, Plain]) -> str:
    """Write an object as YAML that readers of YAML 1.1 and 1.2 take alike."""
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.width = _LINE_MAX
    yaml.sort_base_mapping_type_on_output = False
    stream = StringIO()
    yaml.dump(dict(manifest), stream)
    return stream.getvalue()


class _Representer(SafeRepresenter):
    """Quotes every text that some reader could take for something else."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ANN401, ARG002 - ruamel has no types
        return True


def _represent_text(representer: Any, data: str) -> Any:  # noqa: ANN401 - ruamel has no types
    if _BLOCK.fullmatch(data):
        style = "|"
    elif _NEEDS_NO_QUOTES.fullmatch(data) and data.lower() not in _WORDS_OF_YAML:
        style = None
    else:
        style = '"'
    return representer.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_untyped: Any = _Representer
_untyped.add_representer(str, _represent_text)
