"""`python -m muster_admission`."""

from muster_admission.app import main

main()
