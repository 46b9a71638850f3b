"""Benchmarks of the service, and of the raw limits of the machine for comparison."""
