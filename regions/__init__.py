"""Region states, read order and speculation, traffic, durability, and repair of copies."""
