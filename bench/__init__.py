"""Benchmarks: raw limits of the machine, then what the service makes of them."""
