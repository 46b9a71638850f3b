"""The ports of a proxy: which calls each of them serves, and to whom."""
