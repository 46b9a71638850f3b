"""The web console: pages in a browser that show a cluster as it is now."""
