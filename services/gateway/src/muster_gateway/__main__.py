"""`python -m muster_gateway`."""

from muster_gateway.app import main

main()
