"""Rhumbline is a geo-replicated, strictly ordered log service."""
