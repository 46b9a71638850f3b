"""Balance of load between the write proxies of a region: reports, decisions, assignments, moves."""
