"""Proving that the books agree: states, ledger and the usage that deciding looks at."""

from muster_admission.book import Book
from muster_contracts.queries import LedgerReport
from muster_domain.states import Admitted, Evicting, Reserved


def ledger_report(book: Book) -> LedgerReport:
    """What differs between what workloads hold and what is charged; empty when nothing does."""
    return LedgerReport(
        partition=book.partition,
        version=book.announcer.version - 1,
        holds=sum(1 for _ in book.ledger.holds()),
        workloads=len(book.records),
        discrepancies=tuple(discrepancies(book)),
    )


def discrepancies(book: Book) -> list[str]:
    """One line for each (ClusterQueue, flavor, resource) on which the books differ."""
    held: dict[tuple[str, str, str], int] = {}
    for record in book.records.values():
        if isinstance(record.state, Reserved | Admitted | Evicting):
            admission = record.state.admission
            for (flavor, resource), amount in admission.usage.items():
                key = (admission.cluster_queue, flavor, resource)
                held[key] = held.get(key, 0) + amount
    charged = {
        (key.cluster_queue, key.flavor, key.resource): balance.reserved_milli + balance.used_milli
        for key, balance in book.ledger.balances().items()
    }
    found: list[str] = []
    for key in sorted({*held, *charged}):
        if held.get(key, 0) != charged.get(key, 0):
            found.append(f"{'/'.join(key)}: held {held.get(key, 0)}, charged {charged.get(key, 0)}")
        entry = book.view.catalog.queues.get(key[0])
        used = entry.node.used(key[1:]) if entry is not None else held.get(key, 0)
        if used != held.get(key, 0):
            found.append(f"{'/'.join(key)}: held {held.get(key, 0)}, counted {used}")
    return found
