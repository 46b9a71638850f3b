"""Many producers and consumers of one topic through proxies, while processes are killed."""
