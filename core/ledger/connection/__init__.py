"""Connections to bookies: the pool of a process, pipelined requests and decoded responses."""
