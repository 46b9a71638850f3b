"""Proxies and thin clients in the simulated world: production code except for gRPC."""
