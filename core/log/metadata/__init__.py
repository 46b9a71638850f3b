"""Streams in the metadata store: paths, records, deletion, retention and subscriptions."""
