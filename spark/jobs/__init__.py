"""The Spark jobs archive, verify and replay, run by spark-submit or ``rhumbline spark``."""
