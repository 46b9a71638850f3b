"""The stream reader: positions, entries across segments, read-ahead and record batches."""
