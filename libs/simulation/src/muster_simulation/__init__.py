"""The services' own machines on a virtual bus, store and clock.

One seed gives one run: what is submitted, when each process takes its turn, what is delivered twice
or late, who crashes between which two steps. The machines are the ones that run in earnest.
"""
