"""Bearer tokens of the gateway: who has one, and the file that it reads.

The file holds SHA-256 digests of random tokens, so reading it opens no door.
"""

import hashlib
import json
from collections.abc import Mapping

from muster_stack.access import EVERYWHERE, Access, ci_login

ADMIN = "admin"
VIEWER = "viewer"


def token_names(access: Access) -> tuple[str, ...]:
    """Everybody who gets a token: an admin, a viewer, every CI system."""
    return (ADMIN, VIEWER, *(ci_login(name) for name in sorted(access.ci)))


def token_variable(name: str) -> str:
    """The environment variable that holds a token, for example MUSTER_TOKEN_ADMIN."""
    tail = "".join(c if c.isascii() and c.isalnum() else "_" for c in name).upper()
    return f"MUSTER_TOKEN_{tail}"


def render(access: Access, tokens: Mapping[str, str]) -> str:
    """The gateway's token file, given the tokens by name."""
    namespaces = {ci_login(name): list(places) for name, places in access.ci.items()}
    entries = {
        hashlib.sha256(tokens[name].encode()).hexdigest(): {
            "name": name,
            "role": name if name in {ADMIN, VIEWER} else "ci",
            "namespaces": _namespaces(namespaces.get(name)),
        }
        for name in token_names(access)
    }
    return json.dumps(entries, indent=2, sort_keys=True) + "\n"


def _namespaces(names: list[str] | None) -> list[str] | str:
    return EVERYWHERE if names is None or EVERYWHERE in names else names
