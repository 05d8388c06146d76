"""The peers' cases, their checker and our adapter: what passes is in docs/conformance.md."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "conformance"
DOCUMENT = ROOT / "docs" / "conformance.md"

needs_cases = pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"the peers' cases are not at {SHARED}"
)


def checker() -> ModuleType:
    """What compares an answer with the expected one."""
    return _load("conformance_check", SHARED / "check.py")


def adapter() -> ModuleType:
    """What runs a case through the core."""
    return _load("conformance_adapter", Path(__file__).parent / "adapter.py")


def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
