"""Commands for namespaces, streams, segments, archives and Spark jobs."""
