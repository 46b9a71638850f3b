"""Planted bugs: known bugs are put back one by one, to verify that the checker finds them."""
