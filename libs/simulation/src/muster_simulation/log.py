"""A log that behaves like a JetStream stream: ordered, with a bounded memory for message ids."""

from collections import OrderedDict
from collections.abc import Mapping

from muster_contracts.envelope import MESSAGE_ID
from muster_runtime.reader import Received


class VirtualLog:
    """Messages in order of arrival. An id seen within `window_ms` is dropped as a duplicate."""

    def __init__(self, window_ms: int) -> None:
        self.messages: list[Received] = []
        self.duplicates = 0
        self._window_ms = window_ms
        self._seen: OrderedDict[str, int] = OrderedDict()
        self._answers: dict[tuple[str, str], bool] = {}

    def append(self, subject: str, headers: Mapping[str, str], body: bytes, now_ms: int) -> None:
        """Take in a message."""
        identity = headers.get(MESSAGE_ID, "")
        while self._seen and next(iter(self._seen.values())) < now_ms - self._window_ms:
            self._seen.popitem(last=False)
        if identity and identity in self._seen:
            self.duplicates += 1
            return
        self._seen[identity] = now_ms
        self.messages.append(
            Received(
                sequence=len(self.messages) + 1,
                subject=subject,
                headers=dict(headers),
                body=body,
                published_ms=now_ms,
            )
        )

    def read(self, after: int, filters: tuple[str, ...], limit: int) -> tuple[list[Received], int]:
        """Up to `limit` messages on any of the subjects after a sequence, and how far it looked."""
        found: list[Received] = []
        looked_at = after
        for index in range(after, len(self.messages)):
            looked_at = index + 1
            if any(self._matches(pattern, index) for pattern in filters):
                found.append(self.messages[index])
                if len(found) == limit:
                    break
        return found, looked_at

    def _matches(self, pattern: str, index: int) -> bool:
        subject = self.messages[index].subject
        key = (pattern, subject)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = _matches(pattern.split("."), subject.split("."))
        return answer


def _matches(pattern: list[str], tokens: list[str]) -> bool:
    for index, part in enumerate(pattern):
        if part == ">":
            return len(tokens) > index
        if index >= len(tokens) or part not in ("*", tokens[index]):
            return False
    return len(pattern) == len(tokens)
