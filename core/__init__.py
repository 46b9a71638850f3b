"""The log service: protocol decisions, wire formats, bookies, ledgers and streams."""
