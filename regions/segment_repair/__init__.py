"""Segments that disagree with their ledgers: comparison, and what can be repaired without risk."""
