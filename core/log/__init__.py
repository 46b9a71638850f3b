"""Streams: chains of log segments, with one writer at a time and any number of readers."""
