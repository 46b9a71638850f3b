"""The interfaces that direct clients and clients of proxies share."""
