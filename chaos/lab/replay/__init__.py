"""Replays of simulated runs: a run with its trace and verdict, as a document that a page draws."""
