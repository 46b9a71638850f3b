"""Access to ledger metadata, bookie registrations and cookies in a metadata store."""
