"""Brings back copies: an elected auditor finds what is missing or misplaced, workers copy it."""
