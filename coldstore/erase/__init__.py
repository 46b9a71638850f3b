"""Erases records from archives, and keeps the proof of what was erased."""
