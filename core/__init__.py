"""The log service itself: protocol rules, wire formats, bookies, ledgers and streams."""
