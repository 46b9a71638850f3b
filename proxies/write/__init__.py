"""The write proxy: stream ownership, append sessions, deduplication, rate limits."""
