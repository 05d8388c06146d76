"""`python -m muster_stack.secrets`: make what `docker compose up` needs before it starts.

Writes missing secrets into `.env` and configuration made from `deploy/access.toml` beside it. What
exists is kept, so it is run again after access.toml has changed.
"""

from pathlib import Path
from typing import Annotated

import typer

from muster_domain.errors import MusterError
from muster_stack import compose_files
from muster_stack.access import Access
from muster_stack.credentials import complete, write_private

_ACCESS = Path("deploy/access.toml")
_ENVIRONMENT = Path(".env")
_FOLDER = Path(".muster/compose")


def prepare(access: Access, environment: Path, folder: Path) -> None:
    """Complete the secrets and write the files. Raises `InvalidValue`."""
    found = complete(environment, compose_files.secret_names(access))
    write_private(folder / "nats.env", compose_files.nats_environment(access, found))
    _write(folder / "nats.conf", compose_files.nats_conf(access))
    _write(folder / "redis-start.sh", compose_files.redis_start())
    _write(folder / "tokens.json", compose_files.tokens_json(access, found))


def secrets(
    access: Annotated[Path, typer.Option(help="Who there is")] = _ACCESS,
    env: Annotated[Path, typer.Option(help="Where secrets are kept, readable by you")] = (
        _ENVIRONMENT
    ),
    folder: Annotated[Path, typer.Option(help="Where configuration goes")] = _FOLDER,
) -> None:
    """Make the secrets and the configuration that the containers need."""
    try:
        prepare(Access.read(access), env, folder)
    except (MusterError, OSError) as error:
        typer.echo(f"nothing was made: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(f"secrets are in {env}, configuration is in {folder}")


def _write(path: Path, text: str) -> None:
    """Containers read these as users of their own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)


if __name__ == "__main__":
    typer.run(secrets)
