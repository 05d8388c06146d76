import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("placement_digest.py")


def digest(seed: str) -> str:
    environment = os.environ | {"PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_the_hash_seed_changes_nothing() -> None:
    first = digest("0")
    assert len(first.splitlines()) > 50
    assert {digest(seed) for seed in ("1", "2", "3")} == {first}
