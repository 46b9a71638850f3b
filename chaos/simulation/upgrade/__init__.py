"""Processes of two versions in one simulated cluster, and the operator who rolls them."""
