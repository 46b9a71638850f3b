"""Simulated runs in which the segments of a stream are archived in a cold store."""
