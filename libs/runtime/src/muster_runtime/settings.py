"""What every service is told by its environment, all under the prefix `MUSTER_`."""

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class ServiceSettings(BaseSettings):
    """Settings shared by all services; a service adds its own by subclassing."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    nats_url: str = Field(default="nats://127.0.0.1:4222", description="Where the bus listens")
    nats_user: str = Field(default="", description="The service's own bus user")
    nats_password: SecretStr = Field(default=SecretStr(""), description="Its password")
    nats_api_prefix: str = Field(
        default="$JS.API", description="What the bus user's account calls the stream API"
    )
    redis_url: str = Field(default="redis://127.0.0.1:6379/0", description="Where the ledger is")
    redis_user: str = Field(default="", description="The service's own ledger user")
    redis_password: SecretStr = Field(default=SecretStr(""), description="Its password")
    redis_synced: bool = Field(
        default=False, description="Wait for the disk at every commit (the profile for money)"
    )
    http_host: str = Field(default="127.0.0.1", description="Address of health and metrics")
    http_port: int = Field(default=0, description="Its port; 0 takes a free one")
    instance: str = Field(default="", description="Name of this replica; host and pid if empty")
    log_level: str = Field(default="INFO", description="DEBUG, INFO, WARNING or ERROR")
    log_json: bool = Field(default=True, description="One JSON object a line")
    trace_file: str = Field(
        default="", description="Write spans to this file, a JSON object a line"
    )
    trace_endpoint: str = Field(
        default="", description="OTLP/HTTP collector, for example http://otel:4318"
    )
    trace_ratio: float = Field(default=0.01, description="Share of new traces that are kept")
