"""Permissions of callers: what each call needs, and calls and appends that are checked."""
