"""``rhumbline apply``, ``diff`` and ``export``: the configuration of a cluster as TOML files."""
