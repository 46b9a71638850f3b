"""The demo: a three-region log in one process, with real data and a region outage."""
