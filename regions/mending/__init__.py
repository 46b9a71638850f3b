"""Segments that disagree with their ledgers: comparison, and what can be mended without risk."""
