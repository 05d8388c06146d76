"""A house whose commits are counted, as the service counts them."""

from .house import House


class Measured(House):
    """Reads its own metrics."""

    def value(self, name: str, /, **labels: str) -> float | None:
        self.metrics.count(self.machine.book)
        self.metrics.refresh((self.machine,))
        return self.registry.get_sample_value(f"muster_{name}", labels)

    def has(self, value: str) -> bool:
        """Whether any series has this value in a label."""
        self.metrics.refresh((self.machine,))
        return any(
            value in sample.labels.values()
            for metric in self.registry.collect()
            for sample in metric.samples
        )
