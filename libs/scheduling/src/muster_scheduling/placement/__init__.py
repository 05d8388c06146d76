"""Seats for gangs: all members together or none.

Owns the view of nodes and bound seats, the search for seats and the reasons for refusals. Knows no
quota, no queue and no clock. Start at `gang.place` and `table.NodeTable`.
"""
