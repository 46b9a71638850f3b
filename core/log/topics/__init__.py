"""Partitioned topics, and the consumer groups that share their partitions."""
