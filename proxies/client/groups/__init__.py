"""Membership in consumer groups through a proxy."""
