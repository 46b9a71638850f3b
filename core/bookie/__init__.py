"""The bookie: a server that stores entries durably and never denies an entry that it may hold."""
