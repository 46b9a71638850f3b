"""The entry index, which maps (ledger, entry) to a position in a file."""
