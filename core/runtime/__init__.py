"""What production code may reach outside of itself: disk, clock, randomness, metadata."""
