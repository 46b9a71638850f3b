"""Streams: segments of ledgers, one writer at a time, readers anywhere."""
