"""Quotas, and the checklist of a hardened cluster."""
