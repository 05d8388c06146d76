"""`python -m muster_accounting`."""

from muster_accounting.app import main

main()
