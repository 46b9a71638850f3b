"""Probes between proxies, and the decision that a proxy is lost before its session expires."""
