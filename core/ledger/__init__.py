"""The ledger client: replicates entries to bookies, fences, recovers, reads."""
