"""Archived segments, read through the interface of closed ledgers."""
