"""Which partition decides for a cohort tree.

A partition is the unit of ownership and of commit: one admission replica holds its lease, one Redis
call commits it. The count is fixed for the life of an installation, since stored state, leases and
the log are keyed by it.
"""

import hashlib
from functools import lru_cache

PARTITION_COUNT = 8
PARTITIONS: tuple[str, ...] = tuple(f"p{number:02d}" for number in range(PARTITION_COUNT))

EVERY_PARTITION = "all"
"""Stands in a subject for an event whose workload nobody has heard of yet."""


@lru_cache(maxsize=1024)
def partition_of(tree_root: str) -> str:
    """The partition of a cohort tree, by the name of its root (or of a lone ClusterQueue)."""
    digest = hashlib.blake2b(tree_root.encode(), digest_size=8).digest()
    return PARTITIONS[int.from_bytes(digest, "big") % PARTITION_COUNT]


def home_of(budget: str) -> str:
    """The partition that hands out a budget, by its name; its workloads may be anywhere."""
    return partition_of(f"budget/{budget}")


PLACEMENT_SHARD = "placement"
"""All nodes are one shard: one owner seats, the other replicas stand by."""
