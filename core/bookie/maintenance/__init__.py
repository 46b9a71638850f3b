"""Background work: compaction, garbage collection, scrubbing, leaving limbo, verification."""
