"""The decision ledger: append-only, chained, signed."""
