"""The checker: evaluates invariants on the record of a run, independently of the implementation."""
