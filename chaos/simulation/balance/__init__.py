"""A fast model of many write proxies; the decisions of its balancer are production code."""
