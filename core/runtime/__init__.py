"""Interfaces to disk, clock, metadata and cold stores, and primitives that all components share."""
