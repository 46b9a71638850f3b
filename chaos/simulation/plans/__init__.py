"""Functions that turn a seed into a plan: a complete description of one simulated run."""
