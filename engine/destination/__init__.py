"""Destinations: each applies committed epochs exactly once, in the order of the ledger."""
