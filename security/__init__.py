"""Principals, grants, quotas and audit events, without I/O except for checks of file modes."""
