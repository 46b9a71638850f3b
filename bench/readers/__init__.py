"""Benchmarks of readers behind read proxies."""
