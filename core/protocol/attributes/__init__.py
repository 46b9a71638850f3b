"""Attributes of records: optional keys, headers and event times, as columns of a record set."""
