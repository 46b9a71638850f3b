"""Faults of the simulator: scheduled ones, and ones that wait for a trigger."""
