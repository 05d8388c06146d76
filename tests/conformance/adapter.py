"""The checker's door: one case in, what Muster decided out.

Translates only. Which rules hold is the business of the core.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))


def run(suite: str, case: dict[str, Any]) -> dict[str, Any]:
    """Decide one case. Cases of Volcano say which `check` they were made with."""
    peer = "volcano_adapter" if "check" in case else "kueue_adapter"
    return importlib.import_module(peer).run(suite, case)
