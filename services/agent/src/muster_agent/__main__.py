"""`python -m muster_agent`."""

from muster_agent.app import main

if __name__ == "__main__":
    main()
