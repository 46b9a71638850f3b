"""Tokens, decisions by grants, ledger secrets and the audit log: security that needs I/O."""
