"""Writing a stream: batches, the pipeline of entries, segments and their roll."""
