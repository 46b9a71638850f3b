"""A cluster of real processes watched by Prometheus, for game days and tests of what is shown."""
