"""Home regions of streams: where a stream is written from, and where its home should be."""
