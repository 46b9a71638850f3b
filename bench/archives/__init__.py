"""Benchmarks of archives."""
