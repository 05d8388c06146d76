"""What a simulation came to: waits, shares, preemptions, hours and their price."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from muster_simulation.house import Guest, Phase

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Jobs of one queue, or of one size. Waits are from submission to the first admission.

    `gpu_ms` counts GPUs times the time they were held, lost attempts included; `lost_gpu_ms` is the
    part of attempts that were evicted. `cost_micros` are millionths of the price's currency.
    """

    name: str
    jobs: int
    admitted: int
    finished: int
    refused: int
    waiting: int
    wait_p50_ms: int | None
    wait_p95_ms: int | None
    evictions: int
    gpu_ms: int
    lost_gpu_ms: int
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

    def row(self, name: str, price: Fraction | None) -> Row:
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
            wait_p95_ms=percentile(self.waits, 95),
            evictions=self.evictions,
            gpu_ms=self.gpu_milli_ms // 1000,
            lost_gpu_ms=self.lost_gpu_milli_ms // 1000,
            cost_micros=cost,
        )


def summarise(
    guests: Iterable[Guest], resource: str, until_ms: int, price_per_hour: str = ""
) -> Summary:
    """Sum up every workload of a run, counted in `resource`."""
    price = Fraction(price_per_hour) if price_per_hour else None
    by_queue: dict[str, _Sum] = {}
    by_size: dict[int, _Sum] = {}
    total = _Sum()
    for guest in guests:
        gpus_milli = guest.workload.total_requests.get(resource, 0)
        queue = by_queue.setdefault(guest.workload.queue.name, _Sum())
        size = by_size.setdefault(gpus_milli, _Sum())
        for one in (queue, size, total):
            one.add(guest, gpus_milli, until_ms)
    return Summary(
        queues=tuple(by_queue[name].row(name, price) for name in sorted(by_queue)),
        sizes=tuple(by_size[size].row(_count(size), price) for size in sorted(by_size)),
        total=total.row("all", price),
        until_ms=until_ms,
    )


def percentile(values: list[int], percent: int) -> int | None:
    """The smallest value that so many percent do not exceed; None of nothing."""
    if not values:
        return None
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


def _count(milli: int) -> str:
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"
