"""Bugs put back on purpose, one by one, to see whether the simulator's checker finds them."""
