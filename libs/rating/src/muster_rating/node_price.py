"""What an hour of a node, and of one of its devices, costs whoever owns it.

    capex / (years x 8760 h x availability) + power x PUE x energy price + operations

Availability spreads the purchase over the hours that are sold: a node that is billed for every hour
while its price assumes fewer recovers more than was paid for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from muster_domain.errors import InvalidValue
from muster_domain.money import format_decimal, parse_amount

HOURS_OF_YEAR = 8760
_PLACES = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCost:
    """The inputs of a node's price, in units of the currency; `power_kw` is what it draws."""

    capex: Fraction
    years: Fraction
    availability: Fraction
    power_kw: Fraction
    pue: Fraction
    energy_per_kwh: Fraction
    operations_hourly: Fraction
    devices: int

    @property
    def capex_hourly(self) -> Fraction:
        """The purchase, over the hours in which the node is there."""
        return Fraction(self.capex, self.years * HOURS_OF_YEAR * self.availability)

    @property
    def energy_hourly(self) -> Fraction:
        """Energy, cooling included."""
        return self.power_kw * self.pue * self.energy_per_kwh

    @property
    def hourly(self) -> Fraction:
        """The whole node."""
        return self.capex_hourly + self.energy_hourly + self.operations_hourly

    @property
    def hourly_of_device(self) -> Fraction:
        """One of its devices, which carry the whole node."""
        return Fraction(self.hourly, self.devices)

    def __str__(self) -> str:
        parts = (self.capex_hourly, self.energy_hourly, self.operations_hourly)
        shown = " + ".join(format_decimal(part, _PLACES) for part in parts)
        return f"node of {self.devices} devices at {shown} = {format_decimal(self.hourly, _PLACES)}"


_AMOUNTS = (
    "capex", "years", "availability", "power_kw", "pue", "energy_per_kwh", "operations_hourly",
)  # fmt: skip


def read_node_cost(written: Mapping[str, str], place: str) -> NodeCost:
    """Read the inputs from text, all of them named. Raises `InvalidValue`."""
    known = {*_AMOUNTS, "devices"}
    for name in sorted(known ^ set(written)):
        raise InvalidValue(
            f"there is no field {name!r}" if name in written else f"{name} is missing",
            field=f"{place}.{name}",
            fix=f"write {', '.join((*_AMOUNTS, 'devices'))}",
        )
    amounts = {name: parse_amount(written[name], field=f"{place}.{name}") for name in _AMOUNTS}
    for name in ("years", "availability"):
        if not amounts[name]:
            raise InvalidValue(f"{name} is 0", field=f"{place}.{name}", fix="write more than 0")
    if amounts["availability"] > 1:
        raise InvalidValue(
            "more than all hours of a year", field=f"{place}.availability", fix='write "0.90"'
        )
    devices = written["devices"]
    if not devices.isdecimal() or int(devices) == 0:
        raise InvalidValue(f"{devices!r} is no number of devices", field=f"{place}.devices")
    return NodeCost(**amounts, devices=int(devices))
