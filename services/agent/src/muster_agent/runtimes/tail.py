"""Following what a run writes: whole lines from a file that grows, a bounded amount at a time."""

from pathlib import Path

READ_MAX_BYTES = 32 * 1024
"""Passed on at a time; what comes faster than this each time is left out, and said to be."""
LINE_MAX_BYTES = 8 * 1024
"""A longer line is passed on in pieces."""


class Tail:
    """Reads what comes after its making, each time from where it was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = _size(path)
        self._partial = b""

    def read(self, *, last: bool = False) -> str:
        """Complete lines since the last call; with `last` the incomplete one too."""
        size = _size(self._path)
        skipped = max(0, size - self._position - READ_MAX_BYTES)
        fresh = self._read_from(self._position + skipped) if size > self._position else b""
        if skipped:
            note = f"\n[{skipped} bytes were not passed on; they are in the node's file]\n"
            fresh = note.encode() + fresh
        buffer = self._partial + fresh
        whole, newline, rest = buffer.rpartition(b"\n")
        if last or len(rest) > LINE_MAX_BYTES:
            whole, newline, rest = buffer, b"", b""
        self._partial = rest
        return (whole + newline).decode(errors="replace")

    def _read_from(self, position: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(position)
            fresh = file.read(READ_MAX_BYTES)
        self._position = position + len(fresh)
        return fresh


def last_lines(path: Path, count: int) -> str:
    """The last lines of a file, at most `READ_MAX_BYTES` of them."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, _size(path) - READ_MAX_BYTES))
        lines = file.read(READ_MAX_BYTES).decode(errors="replace").splitlines(keepends=True)
    return "".join(lines[-count:])


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
