"""Half-open windows of time, in milliseconds since 1970."""

from dataclasses import dataclass

from muster_domain.errors import InvalidValue


@dataclass(frozen=True, slots=True)
class Window:
    """`[start_ms, end_ms)`."""

    start_ms: int
    end_ms: int

    @property
    def length_ms(self) -> int:
        """Its length, never below zero."""
        return max(0, self.end_ms - self.start_ms)

    def clip(self, start_ms: int, end_ms: int | None) -> "Window":
        """The part of `[start_ms, end_ms)` inside, `None` being open; of length zero if none."""
        start = min(max(self.start_ms, start_ms), self.end_ms)
        end = self.end_ms if end_ms is None else min(self.end_ms, end_ms)
        return Window(start, max(start, end))

    def overlap_ms(self, start_ms: int, end_ms: int | None) -> int:
        """How much of `[start_ms, end_ms)` is inside."""
        end = self.end_ms if end_ms is None or end_ms > self.end_ms else end_ms
        start = max(self.start_ms, start_ms)
        return end - start if end > start else 0


def asked_window(start_ms: int, end_ms: int) -> Window:
    """A window that somebody asked for. Raises `InvalidValue` where it is empty or negative."""
    if end_ms <= start_ms:
        raise InvalidValue(
            f"the window ends at {end_ms}, not after its start {start_ms}",
            field="end_ms",
            fix="give an end after the start",
        )
    return Window(start_ms, end_ms)
