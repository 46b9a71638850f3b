"""Benchmarks of several principals that share proxies."""
