"""Audit events of the servers of this process: what they refuse."""
