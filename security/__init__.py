"""Identities and permissions: principals, certificates' names and decisions, without I/O."""
