"""The agent: what one machine has, and what runs on it.

Owns observed facts (inventory, pods started and finished), never what is wanted. Knows nothing of
quota, queues or other nodes.
"""
