"""A cycle's dealings with budgets: before it decides, and after."""

from collections.abc import Mapping

from muster_admission.book import Book
from muster_admission.ending import evict
from muster_contracts.budgets import BudgetAllotted, BudgetDrawn, BudgetThresholdReached
from muster_contracts.partitions import home_of
from muster_domain.conditions import EvictionReason, Explanation
from muster_domain.states import Requeue


def open_purse(book: Book, now_ms: int) -> None:
    """Hold on for what runs, look again at whom a budget kept waiting, and say what is left."""
    for workload_id, budget in book.budgets.renew(now_ms):
        message = f"budget {budget} does not hold its next quantum of time"
        reason = EvictionReason.BUDGET_EXHAUSTED
        evict(book, book.records[workload_id], reason, Requeue(), now_ms, message=message)
    for workload_id in book.budgets.take_retries(now_ms):
        book.view.retry(workload_id)
    book.view.purse = book.budgets.purse(now_ms)


def close_purse(book: Book, explanations: Mapping[str, Explanation], now_ms: int) -> None:
    """Tell the homes what changed, and answer for the accounts that are at home here."""
    book.budgets.note(explanations)
    for word in book.budgets.words(book.announcer.version, now_ms):
        home = home_of(word.budget)
        if home == book.partition:
            book.homes.hear(word)
        else:
            book.announcer.budget(word, word.budget, home, now_ms)
    for said in book.homes.answers(now_ms):
        match said:
            case BudgetAllotted(partition=book.partition):
                book.budgets.hear(said)
            case BudgetAllotted(partition=partition):
                book.announcer.budget(said, said.account, partition, now_ms)
            case BudgetThresholdReached():
                book.announcer.budget(said, said.budget, book.partition, now_ms)
    for name, value in {**book.budgets.take_changes(), **book.homes.take_changes()}.items():
        book.put(name, value)


def heard(book: Book, fact: BudgetDrawn | BudgetAllotted) -> None:
    """Another partition's word, or the answer of another home."""
    match fact:
        case BudgetDrawn():
            if home_of(fact.budget) == book.partition:
                book.homes.hear(fact)
        case BudgetAllotted():
            book.budgets.hear(fact)
