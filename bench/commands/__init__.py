"""Commands that run benchmarks."""
