"""Recovering a ledger that another writer left open, and copying entries for repair."""
