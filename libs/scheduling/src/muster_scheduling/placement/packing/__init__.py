"""Packing that keeps what is free usable: the kinds of pods that came, and what they need.

`mix` learns from arrivals, `prices` says what room for each kind is worth now, `future` what would
still fill a node, `losses` what a pod costs there. Start at `prices.PackingPrices`.
The mix and the prices are data that placement stores.
"""
