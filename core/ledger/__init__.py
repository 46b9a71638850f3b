"""The ledger client: writes, reads, recovers and repairs ledgers that bookies store."""
