"""Hosts of server processes: the production disk, the status server, bookies and proxies."""
