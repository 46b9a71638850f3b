"""``rhumbline sql``: queries of the cluster state in an SQLite database in memory."""
