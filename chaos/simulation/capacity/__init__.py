"""A statistical model of large clusters; placement, repair and rebalancing are production code."""
