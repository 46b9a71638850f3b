"""Judges how durable the data is: ``rhumbline durability``, and the same for ``doctor``."""
