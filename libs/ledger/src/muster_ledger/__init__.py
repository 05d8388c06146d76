"""The two-phase quota ledger and the store that owners commit their state to.

`model` is pure arithmetic over holds; `store` says what a commit is; `memory_store` and
`redis_store` keep it; `verify` proves that the sums agree. Knows nothing of the bus.
"""
