"""Archived segments: writing, reading, verifying and restoring them."""
