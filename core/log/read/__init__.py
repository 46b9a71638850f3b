"""Reading a stream: positions, entries across segments, read-ahead, records."""
