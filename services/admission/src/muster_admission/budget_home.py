"""The accounts that are at home in one partition: who was allotted what, and how they stand.

The home decides by words that partitions say, never by their books, and answers in words; each is
absolute, so any of them may come twice, late, or after a newer one.
"""

from collections.abc import Mapping
from dataclasses import replace

from muster_contracts import codec
from muster_contracts.budgets import (
    HOME_FIELD,
    BudgetAllotted,
    BudgetDrawn,
    BudgetHome,
    BudgetRow,
    BudgetThresholdReached,
)
from muster_contracts.partitions import home_of
from muster_domain.budgets import Budget, BudgetWindow
from muster_rating.budgets import (
    Drawing,
    allot,
    forecast_micros,
    free_micros,
    heard,
    thresholds_reached,
)
from muster_rating.periods import period_at

KEPT_MS = 35 * 86_400_000
"""So long after its period an account is forgotten."""

Numbers = tuple[int, int | None, int | None]
"""What a partition was told: its allotment, the limit, and what is free."""


class BudgetHomes:
    """Accounts by name. Words about budgets that are not declared wait until they are."""

    def __init__(self, partition: str, fields: Mapping[str, bytes]) -> None:
        self._partition = partition
        self.homes: dict[str, BudgetHome] = {}
        self._budgets: Mapping[str, Budget] = {}
        self._changed: dict[str, None] = {}
        self._told: dict[tuple[str, str], tuple[int, Numbers]] = {}
        self._puts: dict[str, bytes | None] = {}
        for name, body in sorted(fields.items()):
            if name.startswith(HOME_FIELD):
                home = codec.decode(BudgetHome, body)
                self.homes[home.account] = home
                self._changed[home.account] = None

    def configure(self, budgets: Mapping[str, Budget]) -> None:
        """Take the declared budgets; a limit may have changed."""
        self._budgets = budgets
        self._changed |= dict.fromkeys(self.homes)

    def hear(self, word: BudgetDrawn) -> None:
        """Take a partition's word. The same again, or an older one, changes nothing."""
        home = self.homes.get(word.account, BudgetHome(account=word.account))
        said = Drawing(
            number=word.number,
            returned=word.returned_micros,
            wanted=word.wanted_micros,
            spent=word.spent_micros,
            held=word.held_micros,
            waits=word.waits,
        )
        drawings = drawings_of(home)
        after = heard(drawings, word.partition, said)
        if after == drawings:
            return
        words = {**home.words, word.partition: word}
        self._keep(_home_of(home.account, after, words, home.alerted_percents))

    def answers(self, now_ms: int) -> list[BudgetAllotted | BudgetThresholdReached]:
        """Allot what is wanted, and say to whom it matters; alerts come after the answers."""
        said: list[BudgetAllotted | BudgetThresholdReached] = []
        for account in sorted(self._changed):
            home = self.homes[account]
            declared = self._declared(home)
            if declared is None:
                continue
            budget, window = declared
            after = allot(drawings_of(home), window.limit_micros)
            alerts = self._alerts(home, budget, window)
            percents = (*home.alerted_percents, *(alert.percent for alert in alerts))
            kept = _home_of(account, after, home.words, percents)
            if kept != home:
                self._keep(kept)
            said += self._tell(account, after, window.limit_micros)
            said += alerts
            del self._changed[account]
        self._forget_old(now_ms)
        return said

    def rows(self, now_ms: int) -> list[BudgetRow]:
        """Every window of the budgets that are at home here, in its present period."""
        rows: list[BudgetRow] = []
        for name in sorted(name for name in self._budgets if home_of(name) == self._partition):
            budget = self._budgets[name]
            for window in budget.windows:
                period = period_at(window.period, budget.zone, now_ms)
                home = self.homes.get(f"{name}/{period.id}", BudgetHome(account=""))
                spent = sum(word.spent_micros for word in home.words.values())
                rows.append(
                    BudgetRow(
                        budget=name,
                        scope=str(budget.scope),
                        period=period.id,
                        starts_at_ms=period.start_ms,
                        ends_at_ms=period.end_ms,
                        currency=budget.currency,
                        limit_micros=window.limit_micros,
                        spent_micros=spent,
                        held_micros=sum(word.held_micros for word in home.words.values()),
                        forecast_micros=forecast_micros(spent, period.window, now_ms),
                        alert_percents=window.alert_percents,
                        alerted_percents=home.alerted_percents,
                        window=window.period,
                    )
                )
        return rows

    def take_changes(self) -> dict[str, bytes | None]:
        """Fields to put, or to delete where None, since the last call."""
        taken, self._puts = self._puts, {}
        return taken

    def _tell(
        self, account: str, drawings: Mapping[str, Drawing], limit_micros: int | None
    ) -> list[BudgetAllotted]:
        free = free_micros(drawings, limit_micros)
        spent = sum(drawing.spent for drawing in drawings.values())
        held = sum(drawing.held for drawing in drawings.values())
        said: list[BudgetAllotted] = []
        for partition in sorted(drawings):
            drawing = drawings[partition]
            numbers = (drawing.allotted, limit_micros, free)
            number, told = self._told.get((account, partition), (0, None))
            asks = drawing.number > number and bool(drawing.wanted or drawing.waits)
            waits = drawing.waits or drawing.wanted > drawing.allotted
            got_more = told is not None and told[0] != drawing.allotted
            if not (asks or got_more or (waits and numbers != told)):
                continue
            self._told[account, partition] = drawing.number, numbers
            said.append(
                BudgetAllotted(
                    account=account,
                    partition=partition,
                    answers=drawing.number,
                    allotted_micros=drawing.allotted,
                    limit_micros=limit_micros,
                    free_micros=free,
                    others_spent_micros=spent - drawing.spent,
                    others_held_micros=held - drawing.held,
                )
            )
        return said

    def _alerts(
        self, home: BudgetHome, budget: Budget, window: BudgetWindow
    ) -> list[BudgetThresholdReached]:
        spent = sum(word.spent_micros for word in home.words.values())
        first = next(iter(home.words.values()))
        return [
            BudgetThresholdReached(
                account=home.account,
                budget=budget.name,
                period=first.period,
                ends_at_ms=first.ends_at_ms,
                percent=percent,
                spent_micros=spent,
                limit_micros=window.limit_micros or 0,
                currency=budget.currency,
            )
            for percent in thresholds_reached(window, spent)
            if percent not in home.alerted_percents
        ]

    def _declared(self, home: BudgetHome) -> tuple[Budget, BudgetWindow] | None:
        word = next(iter(home.words.values()))
        budget = self._budgets.get(word.budget)
        if budget is None:
            return None
        for window in budget.windows:
            period = period_at(window.period, budget.zone, word.starts_at_ms)
            if f"{budget.name}/{period.id}" == home.account:
                return budget, window
        return None

    def _keep(self, home: BudgetHome) -> None:
        self.homes[home.account] = home
        self._changed[home.account] = None
        self._puts[HOME_FIELD + home.account] = codec.encode(home)

    def _forget_old(self, now_ms: int) -> None:
        for account, home in list(self.homes.items()):
            if all(word.ends_at_ms + KEPT_MS < now_ms for word in home.words.values()):
                del self.homes[account]
                self._changed.pop(account, None)
                self._puts[HOME_FIELD + account] = None


def drawings_of(home: BudgetHome) -> dict[str, Drawing]:
    """What each partition has of an account, as its home keeps it."""
    return {
        partition: Drawing(
            number=word.number,
            allotted=home.allotted_micros.get(partition, 0),
            returned=word.returned_micros,
            wanted=word.wanted_micros,
            spent=word.spent_micros,
            held=word.held_micros,
            waits=word.waits,
            since=home.since.get(partition, 0),
        )
        for partition, word in home.words.items()
    }


def _home_of(
    account: str,
    drawings: Mapping[str, Drawing],
    words: Mapping[str, BudgetDrawn],
    alerted_percents: tuple[int, ...],
) -> BudgetHome:
    return BudgetHome(
        account=account,
        words={
            partition: replace(words[partition], returned_micros=drawings[partition].returned)
            for partition in sorted(drawings)
        },
        allotted_micros={name: drawings[name].allotted for name in sorted(drawings)},
        since={name: drawings[name].since for name in sorted(drawings)},
        alerted_percents=alerted_percents,
    )
