"""Open ledgers whose writer may be gone: requests to roll, signs of life, takeovers."""
