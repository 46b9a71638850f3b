"""Benchmarks of metadata stores: latencies, watches, listings, faults, and three regions."""
