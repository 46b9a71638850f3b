"""The use of feature levels in a run, and the invariants of upgrades."""
