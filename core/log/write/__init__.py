"""The stream writer: batches, the pipeline of entries, segments and their roll."""
