"""Benchmarks of writers and tailing readers beside catch-up reads, compaction and faults."""
