"""Commands about a running cluster: regions, nodes, repair, metadata, plans, outages."""
