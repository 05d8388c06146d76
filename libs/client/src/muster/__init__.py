"""Muster for those who use it: a Python client and the `muster` command.

from muster import Client

with Client("https://muster.example", token="...") as muster:
    accepted = muster.submit(open("job.yaml").read(), key="run-42")
"""

from muster.client import Client
from muster.config import Config
from muster.errors import ClientError, ExitCode, Refused, Unreachable

__all__ = ["Client", "ClientError", "Config", "ExitCode", "Refused", "Unreachable"]
