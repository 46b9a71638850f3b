"""Compaction of archives: records of many small segments move to few large files."""
