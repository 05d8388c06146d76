"""Packing that keeps what is free usable: the kinds of pods that came, and what they need.

`mix` learns from arrivals, `prices` says what room for each kind is worth now, `losses` what a pod
costs on each node. Start at `prices.PackingPrices`. Everything is data that placement stores.
"""
