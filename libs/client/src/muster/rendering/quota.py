"""`muster quota`: one bar for each queue, and four numbers that add up.

used = own + borrowed, and nominal = own + lent + free.
"""

from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from muster.rendering.tables import plain_table
from muster.rendering.words import main_resource
from muster_contracts.queries import QuotaPage, QuotaRow
from muster_domain.quantity import format_quantity

BAR_WIDTH = 32
_MARKS = {"own": "█", "borrowed": "▓", "lent": "░", "free": "·"}
_STYLES = {"own": "green", "borrowed": "yellow", "lent": "cyan", "free": "dim"}
LEGEND = "█ used  ▓ borrowed  ░ lent  · free"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A quota taken apart, in milli-units."""

    own: int
    borrowed: int
    lent: int
    free: int


def parts_of(row: QuotaRow) -> Parts:
    """Take a row apart; what is lent is not also free."""
    own = row.used_milli - row.borrowed_milli
    lent = min(row.lent_milli, max(0, row.nominal_milli - own))
    return Parts(
        own=own,
        borrowed=row.borrowed_milli,
        lent=lent,
        free=max(0, row.nominal_milli - own - lent),
    )


def bar(parts: Parts, scale_milli: int, width: int = BAR_WIDTH) -> Text:
    """A bar to scale: own use, lent out, free, and beyond the nominal quota what is borrowed.

    Every part that is there shows at least once; the ends are rounded down.
    """
    text = Text()
    for name in ("own", "lent", "free", "borrowed"):
        quantity: int = getattr(parts, name)
        cells = quantity * width // scale_milli if scale_milli > 0 else 0
        text.append(_MARKS[name] * max(cells, 1 if quantity else 0), style=_STYLES[name])
    return text


def quota_table(page: QuotaPage, *, wide: bool) -> Table:
    """One line for each ClusterQueue and flavor of its main resource; all resources if `wide`."""
    columns = ["QUEUE", "COHORT", "FLAVOR", "RESOURCE", "", "NOMINAL", "USED", "BORROWED", "LENT"]
    extra = ["RESERVED", "AVAILABLE", "MAX", "PENDING", "ADMITTED"] if wide else ["PENDING"]
    table = plain_table([*columns, *extra], right=("NOMINAL", "USED", "BORROWED", "LENT", *extra))
    rows = page.rows if wide else _main_rows(page)
    scale = _scales(rows)
    pending = {queue.name: queue for queue in page.queues}
    for row in rows:
        queue = pending.get(row.cluster_queue)
        waiting = str(queue.pending) if queue is not None else "-"
        cells: list[str | Text] = [
            row.cluster_queue,
            row.cohort or "-",
            row.flavor,
            row.resource,
            bar(parts_of(row), scale[row.resource]),
            format_quantity(row.nominal_milli),
            format_quantity(row.used_milli),
            format_quantity(row.borrowed_milli),
            format_quantity(row.lent_milli),
        ]
        if wide:
            cells += [
                format_quantity(row.reserved_milli),
                format_quantity(row.available_milli),
                format_quantity(row.max_milli),
            ]
        cells.append(waiting)
        if wide:
            cells.append(str(queue.admitted) if queue is not None else "-")
        table.add_row(*cells)
    return table


def inactive_lines(page: QuotaPage) -> list[str]:
    """Queues that admit nothing, and why."""
    return [
        f"{queue.name} is inactive: {queue.reason}: {queue.message}"
        for queue in page.queues
        if not queue.active
    ]


def _main_rows(page: QuotaPage) -> tuple[QuotaRow, ...]:
    names: dict[str, tuple[str, ...]] = {}
    for row in page.rows:
        names[row.cluster_queue] = (*names.get(row.cluster_queue, ()), row.resource)
    return tuple(
        row for row in page.rows if row.resource == main_resource(names[row.cluster_queue])
    )


def _scales(rows: tuple[QuotaRow, ...]) -> dict[str, int]:
    """The longest bar of each resource."""
    scale: dict[str, int] = {}
    for row in rows:
        whole = max(row.nominal_milli, row.nominal_milli + row.borrowed_milli, row.used_milli)
        scale[row.resource] = max(scale.get(row.resource, 0), whole)
    return scale
