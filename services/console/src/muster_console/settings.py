"""What the console is told by its environment."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ConsoleSettings(BaseSettings):
    """Where to read and where to listen, all under the prefix `MUSTER_`."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    url: str = Field(default="http://127.0.0.1:8080", description="Where the gateway is")
    http_host: str = Field(default="127.0.0.1", description="Address of the pages")
    http_port: int = Field(default=8081, description="Their port")
    log_level: str = Field(default="INFO", description="DEBUG, INFO, WARNING or ERROR")
    console_secure: bool = Field(
        default=False, description="Pages are served over TLS: send the cookie over nothing else"
    )
    console_fresh_s: float = Field(
        default=2.0, gt=0, description="How old an answer may be that several viewers share"
    )
