"""The embedded metadata store: one SQLite file for all processes of one host."""
