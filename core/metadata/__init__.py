"""Ledger metadata, bookie registrations and cookies, kept in a metadata store."""
