"""Encodings of bytes on sockets and in stores: BookKeeper's packets, entries and metadata."""
