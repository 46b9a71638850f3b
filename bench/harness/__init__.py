"""Shared parts of benchmarks: server processes, wide-area links, load generators."""
