"""The proof that an archive is complete: seals, tips of chains, and their verification."""
