"""Judges a run by what callers saw and what the stores hold, knowing nothing of how it works."""
