"""Benchmarks of write and read proxies."""
