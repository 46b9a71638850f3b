"""Streams in the console: search, rows, segments and the live tail."""
