"""Reads streams in Spark: options, planning, batch queries and streaming queries."""
