"""Tables without lines, so that they can be cut and grepped."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text


def plain_table(columns: Iterable[str], right: Iterable[str] = ()) -> Table:
    """An empty table with bold headings; the columns in `right` are flush right."""
    to_the_right = set(right)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(
            Text(column), justify="right" if column in to_the_right else "left", no_wrap=True
        )
    return table
