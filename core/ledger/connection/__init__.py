"""Connections to bookies: one pool for a process, pipelined requests, decoded responses."""
