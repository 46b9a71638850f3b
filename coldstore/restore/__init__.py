"""Streams that are created from archives: restored under their name, or copied to another."""
