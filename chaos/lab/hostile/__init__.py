"""Attacks by strangers on the ports of a running cluster, and the latency of others meanwhile."""
