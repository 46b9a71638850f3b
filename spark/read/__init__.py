"""Reading streams in Spark: planning splits, batch and streaming queries."""
