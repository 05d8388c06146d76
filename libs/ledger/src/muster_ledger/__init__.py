"""Two-phase quota ledger: model, memory store, Redis store, verify."""
