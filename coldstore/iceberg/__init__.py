"""Archived streams as Apache Iceberg tables."""
