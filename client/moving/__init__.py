"""Moves a namespace between the global metadata store and a regional one."""
