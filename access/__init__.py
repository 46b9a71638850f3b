"""Proof of identity besides certificates: tokens that clients present and proxies verify."""
