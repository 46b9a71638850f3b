"""Quotas at proxies: where they are stored, and their enforcement."""
