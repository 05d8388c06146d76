"""Shares over the nodes as vectors, in parts of `SCALE`, without ever leaving 64 bits."""

import numpy as np

from muster_scheduling.placement.columns import Vector
from muster_scheduling.volcano.amounts import SCALE

_ROOM_BITS = 62 - 20


def parts_of(part: Vector, whole: Vector) -> Vector:
    """`part` of `whole` on each node, rounded down; at most `SCALE`, and 0 where there is nothing.

    Both are cut to 42 bits first, which moves a share by less than one part.
    """
    largest = int(whole.max(initial=0))
    shift = max(0, largest.bit_length() - _ROOM_BITS)
    cut = np.minimum(np.maximum(part, 0), whole) >> shift
    of = np.maximum(whole >> shift, 1)
    return np.where(whole > 0, cut * SCALE // of, 0)
