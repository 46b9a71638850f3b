"""Follows the guide for three regions, with network namespaces in the place of hosts."""
