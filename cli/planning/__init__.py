"""``rhumbline plan``: the guarantees of a quorum, and what a load needs."""
