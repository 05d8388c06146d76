"""`python -m muster_simulation SEED`: run one seed and say what it came to."""

import sys

from muster_simulation.run import simulate


def main() -> None:
    """Run the seed that the command line names."""
    outcomes = simulate(int(sys.argv[1]))
    print(f"submitted {outcomes.submitted}, evicted {outcomes.evicted}, faults {outcomes.faults}")  # noqa: T201 - a command
    print(f"digest {outcomes.digest}")  # noqa: T201 - a command


if __name__ == "__main__":
    main()
