"""The files of a bookie: the write log, its commit groups, sorted files, replay and startup."""
