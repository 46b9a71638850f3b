"""The demo: a three-region log in one process, real data through it, and a region outage."""
