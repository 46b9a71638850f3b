"""Placement of ledgers: ensembles that satisfy a region rule and survive losses of regions."""
