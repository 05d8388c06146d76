"""How many event streams are open, and no more than there may be."""

from collections.abc import Generator
from contextlib import contextmanager

from muster_domain.errors import Transient


class Watchers:
    """Counts open event streams."""

    def __init__(self, limit: int) -> None:
        self.count = 0
        self._limit = limit

    def check_room(self) -> None:
        """Raise `Transient` when there is no room for another."""
        if self.count >= self._limit:
            raise Transient(f"{self._limit} event streams are open already")

    @contextmanager
    def one_more(self) -> Generator[None, None, None]:
        """Count one until the block ends."""
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1
