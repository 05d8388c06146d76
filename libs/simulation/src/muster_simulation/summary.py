"""What a simulation came to: waits, shares, preemptions, hours and their price."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from muster_simulation.premises import Guest, Phase

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Jobs of one queue, or of one size. Waits are from submission to the first admission.

    `gpu_ms` counts GPUs times the time they were held, lost attempts included; `lost_gpu_ms` is the
    part of attempts that were evicted. `used_percent` is `gpu_ms` of the quota over the whole run,
    more than 100 where a queue borrowed. `cost_micros` are millionths of the price's currency.
    """

    name: str
    jobs: int
    admitted: int
    finished: int
    refused: int
    waiting: int
    wait_p50_ms: int | None
    wait_p90_ms: int | None
    wait_p99_ms: int | None
    evictions: int
    gpu_ms: int
    lost_gpu_ms: int
    used_percent: int | None
    cost_micros: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The whole run. `until_ms` is when it ended."""

    queues: tuple[Row, ...]
    sizes: tuple[Row, ...]
    total: Row
    until_ms: int


@dataclass(slots=True)
class _Sum:
    waits: list[int] = field(default_factory=list[int])
    jobs: int = 0
    finished: int = 0
    refused: int = 0
    waiting: int = 0
    evictions: int = 0
    gpu_milli_ms: int = 0
    lost_gpu_milli_ms: int = 0

    def add(self, guest: Guest, gpus_milli: int, until_ms: int) -> None:
        self.jobs += 1
        self.evictions += guest.evictions
        if guest.first_admitted_ms is not None:
            self.waits.append(guest.first_admitted_ms - guest.submitted_ms)
        elif guest.phase is Phase.FINISHED:
            self.refused += 1
        self.waiting += guest.phase is Phase.PENDING
        ended_well = guest.phase is Phase.FINISHED and guest.first_admitted_ms is not None
        self.finished += ended_well
        holds = guest.phase in (Phase.ADMITTED, Phase.EVICTING)
        held_ms = guest.held_ms + (until_ms - guest.admitted_ms if holds else 0)
        last_ms = (guest.ended_ms or until_ms) - guest.admitted_ms if ended_well or holds else 0
        self.gpu_milli_ms += gpus_milli * held_ms
        self.lost_gpu_milli_ms += gpus_milli * max(0, held_ms - last_ms)

    def row(self, name: str, price: Fraction | None, quota_milli: int = 0, span_ms: int = 0) -> Row:
        cost = None
        if price is not None:
            cost = int(price * 1_000_000 * self.gpu_milli_ms / (1000 * HOUR_MS))
        return Row(
            name=name,
            jobs=self.jobs,
            admitted=len(self.waits),
            finished=self.finished,
            refused=self.refused,
            waiting=self.waiting,
            wait_p50_ms=percentile(self.waits, 50),
            wait_p90_ms=percentile(self.waits, 90),
            wait_p99_ms=percentile(self.waits, 99),
            evictions=self.evictions,
            gpu_ms=self.gpu_milli_ms // 1000,
            lost_gpu_ms=self.lost_gpu_milli_ms // 1000,
            used_percent=100 * self.gpu_milli_ms // full
            if (full := quota_milli * span_ms)
            else None,
            cost_micros=cost,
        )


@dataclass(slots=True, kw_only=True)
class Accounts:
    """Sums up workloads one after the other, counted in `resource`.

    `quota_milli` is the nominal quota by LocalQueue of the same name, where there is one.
    """

    resource: str
    quota_milli: Mapping[str, int]
    price_per_hour: str = ""
    _by_queue: dict[str, _Sum] = field(default_factory=dict[str, _Sum])
    _by_size: dict[int, _Sum] = field(default_factory=dict[int, _Sum])
    _total: _Sum = field(default_factory=_Sum)

    def add(self, guest: Guest, until_ms: int) -> None:
        """Count a workload, which may still hold quota at the end of the run."""
        gpus_milli = guest.workload.total_requests.get(self.resource, 0)
        queue = self._by_queue.setdefault(guest.workload.queue.name, _Sum())
        size = self._by_size.setdefault(gpus_milli, _Sum())
        for one in (queue, size, self._total):
            one.add(guest, gpus_milli, until_ms)

    def summary(self, until_ms: int) -> Summary:
        """What it all came to."""
        price = Fraction(self.price_per_hour) if self.price_per_hour else None
        return Summary(
            queues=tuple(
                self._by_queue[name].row(name, price, self.quota_milli.get(name, 0), until_ms)
                for name in sorted(self._by_queue)
            ),
            sizes=tuple(
                self._by_size[size].row(_count(size), price) for size in sorted(self._by_size)
            ),
            total=self._total.row("all", price, sum(self.quota_milli.values()), until_ms),
            until_ms=until_ms,
        )


def percentile(values: list[int], percent: int) -> int | None:
    """The smallest value that so many percent do not exceed; None of nothing."""
    if not values:
        return None
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


def span(milliseconds: int | None) -> str:
    """A length of time for people; a dash where there is none."""
    if milliseconds is None:
        return "-"
    seconds = milliseconds // 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds} s"


def _count(milli: int) -> str:
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"
