"""Generators of the reference pages of commands, settings and the gRPC service."""
