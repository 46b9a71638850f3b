"""Durability: which copies of the ledgers are live now, and what a failure would leave (PLC-23)."""
