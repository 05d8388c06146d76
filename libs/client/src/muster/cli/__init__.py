"""The `muster` command."""

from muster.cli.app import main

__all__ = ["main"]
