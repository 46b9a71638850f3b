"""Home regions of streams: from where a stream is written, and where its home should be."""
