"""What benchmarks share: server processes, wide-area links, load generators."""
