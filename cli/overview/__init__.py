"""The present state of a cluster, from its metadata and the status servers of its processes."""
