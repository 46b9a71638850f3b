"""Scenarios with real processes in regions that are connected through toxiproxy."""
