"""The versions of the processes of a cluster, which decide when its feature level may be raised."""
