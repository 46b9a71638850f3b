"""Commands that operate a cluster: regions, nodes, repair, metadata, plans, outages."""
