"""Where things are and what follows: region states, read order, speculation, traffic, repair."""
