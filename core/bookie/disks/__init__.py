"""The data directories of a bookie: sorted files on disks of their own (rule DSK-1)."""
