"""The files of a bookie: the write log, its commit groups, sorted files, and their replay."""
