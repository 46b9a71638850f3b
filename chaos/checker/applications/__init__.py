"""Invariants of what applications share beside the log: topics, groups and schemas."""
