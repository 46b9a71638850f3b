"""Benchmarks of one bookie, of many ledgers in it, and of its loss."""
