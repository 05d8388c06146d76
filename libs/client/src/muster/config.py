"""Where Muster is and who we are: the environment, then a token file."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from muster.errors import BadArgument

DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """How to reach Muster. An empty token calls without one."""

    url: str = DEFAULT_URL
    token: str = ""
    namespace: str = DEFAULT_NAMESPACE


def read_config(environment: Mapping[str, str] = os.environ) -> Config:
    """Read MUSTER_URL, MUSTER_NAMESPACE, and MUSTER_TOKEN or a token file.

    The file is MUSTER_TOKEN_FILE or `~/.config/muster/token`. Raises `BadArgument` when a file that
    is named cannot be read, or the URL is none.
    """
    return Config(
        url=_url(environment.get("MUSTER_URL") or DEFAULT_URL),
        token=environment.get("MUSTER_TOKEN") or _token_from_file(environment),
        namespace=environment.get("MUSTER_NAMESPACE") or DEFAULT_NAMESPACE,
    )


def _url(text: str) -> str:
    found = urlsplit(text)
    if found.scheme not in {"http", "https"} or not found.netloc:
        address = text.rpartition("//")[2]
        raise BadArgument(f"MUSTER_URL={text} is no address", fix=f"write http://{address}")
    return text


def _token_from_file(environment: Mapping[str, str]) -> str:
    named = environment.get("MUSTER_TOKEN_FILE")
    home = environment.get("XDG_CONFIG_HOME") or f"{environment.get('HOME', '~')}/.config"
    path = Path(named) if named else Path(home).expanduser() / "muster" / "token"
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError as error:
        if named:
            raise BadArgument(
                f"the token file {path} does not exist", fix="set MUSTER_TOKEN or write the file"
            ) from error
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise BadArgument(f"the token file {path} cannot be read: {error}") from error
