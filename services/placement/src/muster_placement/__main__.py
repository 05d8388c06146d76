"""`python -m muster_placement`."""

from muster_placement.app import main

main()
