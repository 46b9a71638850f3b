"""Limits on what all client connections of a bookie hold together."""
