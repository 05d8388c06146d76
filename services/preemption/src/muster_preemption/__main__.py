"""`python -m muster_preemption`."""

from muster_preemption.app import main

main()
