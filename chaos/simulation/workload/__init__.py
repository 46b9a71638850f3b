"""What simulated applications do with streams while faults happen."""
