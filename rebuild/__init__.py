"""Backups of the metadata, and its reconstruction from what bookies keep."""
