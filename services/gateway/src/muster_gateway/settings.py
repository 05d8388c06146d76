"""What the gateway is told by its environment."""

from typing import Annotated

from pydantic import Field, SecretStr
from pydantic_settings import NoDecode

from muster_runtime.settings import ServiceSettings


class GatewaySettings(ServiceSettings):
    """Who may come in, and the bounds of what one caller may take."""

    tokens: Annotated[SecretStr, NoDecode] = Field(
        default=SecretStr(""),
        description="JSON: SHA-256 of a bearer token to {name, role, namespaces}",
    )
    tokens_file: str = Field(default="", description="A file with the same JSON; added to `tokens`")
    anonymous_role: str = Field(
        default="", description="Role of callers without a token; empty turns them away"
    )
    query_timeout_s: float = Field(default=2.0, description="How long owners have to answer")
    watchers_max: int = Field(default=500, description="Open event streams at once")
    config_file: str = Field(
        default="", description="A file with Kueue's Configuration, applied at every start"
    )
    front_door: bool = Field(default=True, description="Work off jobs published on the bus")
