"""Faults on purpose: the simulator, wide-area links, scenarios and the history checker."""
