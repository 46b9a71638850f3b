"""Region-local write and read proxies, and the thin client that speaks to them."""
