"""Plans in which an operator changes the cluster itself."""
