"""Gives bookies of Apache BookKeeper their regions."""
