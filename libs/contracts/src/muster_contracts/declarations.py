"""What accounting notes of declared objects, whose stream keeps only the last version of each."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationNoted:
    """accounting: this version of an object holds from `at_ms` on, so that books can be made anew.

    `sequence` is its place in the stream of objects, `subject`, `type` and `body` are as there.
    Where it was there before the books began it holds `from_beginning`.
    """

    sequence: int
    at_ms: int
    subject: str
    type: str
    body: str
    from_beginning: bool = False
