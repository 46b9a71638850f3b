"""The workload: what simulated applications do with streams while faults happen."""
