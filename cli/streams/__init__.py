"""Commands about data: namespaces, streams, segments, archives, Spark jobs."""
