"""Opening the store that the settings name."""

from muster_ledger.redis_store import RedisStore, RedisStoreOptions
from muster_runtime.settings import ServiceSettings


def open_store(settings: ServiceSettings) -> RedisStore:
    """A store over the service's own user; connects when it is first used."""
    scheme, separator, address = settings.redis_url.partition("://")
    secret = settings.redis_password.get_secret_value()
    login = f"{settings.redis_user}:{secret}@" if settings.redis_user else ""
    return RedisStore(
        f"{scheme}{separator}{login}{address}", RedisStoreOptions(synced=settings.redis_synced)
    )
