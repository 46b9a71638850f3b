"""Open ledgers whose writer may be gone: requests to roll, activity of the writer, takeovers."""
