"""A metadata store in a file, and a cold store in a SQLite database."""
