"""The bookie: a server that stores entries durably and never lies about what it has."""
