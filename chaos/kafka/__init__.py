"""Jepsen's workload for systems like Kafka, with its checks, on real processes under faults."""
