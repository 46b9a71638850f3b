"""Plans: from a seed to a complete description of one simulated run."""
