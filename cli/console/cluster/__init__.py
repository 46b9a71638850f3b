"""The cluster in the console: samples, snapshots and their publication, and what-if."""
