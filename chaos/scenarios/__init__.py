"""The library of scenarios, one TOML file each; see ``rhumbline chaos ls``."""
