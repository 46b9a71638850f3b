"""Placement: which bookies hold a ledger, so that its region rule holds and survives losses."""
