"""The page Chaos: runs of the simulator that visitors start, one at a time."""
