"""A region that is really cut off: each region is a network of its own on this machine."""
