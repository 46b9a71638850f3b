"""Writing rows from Spark into streams, exactly once."""
