"""Background work: compaction, garbage collection, scrubbing, limbo recovery, verification."""
