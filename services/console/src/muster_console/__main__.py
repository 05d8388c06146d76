"""`python -m muster_console`."""

from muster_console.app import main

main()
