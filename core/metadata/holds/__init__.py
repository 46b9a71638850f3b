"""Holds in a metadata store, which keep others from deleting data."""
