"""The error that a broken invariant is."""


class InvariantBroken(AssertionError):
    """Names the invariant and what broke it."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
