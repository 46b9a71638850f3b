"""Drains bookies and regions, and shows how far that is."""
