"""Writes rows from Spark to streams, exactly once."""
