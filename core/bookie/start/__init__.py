"""The start of a bookie: the files in use, what was lost, and whether the storage is current."""
